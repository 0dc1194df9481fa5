// Names and which entity each of them means. Evidence from before counts again with `rebuild`.
// MENTIONS carry the names under which they know their entity: `surfaces` as
// `app.folding.surfaces_json` writes them, `names` their keys.

// `open` is absent on a name whose decisions are from its present facts.
CREATE CONSTRAINT name_key IF NOT EXISTS FOR (n:Name) REQUIRE (n.workspace, n.key) IS UNIQUE

CREATE INDEX name_open IF NOT EXISTS FOR (n:Name) ON (n.workspace, n.open, n.key)

// A name in a block: `name` is its key.
CREATE CONSTRAINT posting_name IF NOT EXISTS
FOR (n:Posting) REQUIRE (n.workspace, n.block, n.name) IS UNIQUE

CREATE CONSTRAINT pair_ends IF NOT EXISTS
FOR (n:Pair) REQUIRE (n.workspace, n.one, n.other) IS UNIQUE

CREATE INDEX pair_other IF NOT EXISTS FOR (n:Pair) ON (n.workspace, n.other, n.one)

// `rank` is minus the score in thousandths: ascending order serves paging.
CREATE INDEX pair_rank IF NOT EXISTS
FOR (n:Pair) ON (n.workspace, n.decision, n.rank, n.one, n.other)

// `tie` is absent where it does not decide whether a passage names both.
CREATE INDEX pair_tie IF NOT EXISTS FOR (n:Pair) ON (n.workspace, n.tie, n.one, n.other)

CREATE CONSTRAINT ruling_ends IF NOT EXISTS
FOR (n:Ruling) REQUIRE (n.workspace, n.one, n.other, n.author) IS UNIQUE

CREATE INDEX ruling_other IF NOT EXISTS FOR (n:Ruling) ON (n.workspace, n.other, n.one)

CREATE CONSTRAINT placement_scope IF NOT EXISTS
FOR (n:Placement) REQUIRE (n.workspace, n.key, n.scope) IS UNIQUE

// `whole` is the entity where all mentions of the name belong there, `document_id` whose mentions
// somebody placed by hand; each is absent elsewhere.
CREATE INDEX placement_whole IF NOT EXISTS FOR (n:Placement) ON (n.workspace, n.whole, n.key)

CREATE INDEX placement_document IF NOT EXISTS FOR (n:Placement) ON (n.workspace, n.document_id)

CREATE INDEX placement_by_hand IF NOT EXISTS
FOR (n:Placement) ON (n.workspace, n.by_hand, n.key, n.scope)

// Evidence that is to follow placements: mentions that `entity` has under the name `key`, or all of
// a document. `after` is the last chunk done, `token` another one each time the move begins anew.
CREATE CONSTRAINT move_of IF NOT EXISTS
FOR (n:Move) REQUIRE (n.workspace, n.key, n.entity, n.document_id) IS UNIQUE

CREATE INDEX move_order IF NOT EXISTS FOR (n:Move) ON (n.workspace, n.order)

CREATE INDEX move_document IF NOT EXISTS FOR (n:Move) ON (n.workspace, n.document_id)

// A job that moved evidence, until profiles and vectors have followed.
CREATE CONSTRAINT moved_job IF NOT EXISTS FOR (n:Moved) REQUIRE (n.workspace, n.job_id) IS UNIQUE

// Its version counts the settlements of the workspace; its lock keeps them one after the other.
CREATE CONSTRAINT settlement_workspace IF NOT EXISTS
FOR (n:Settlement) REQUIRE n.workspace IS UNIQUE
