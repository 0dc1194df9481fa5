// Communities of entities and reports on them: (:Entity)-[:MEMBER_OF]->(:Community), whose `parent`
// is the id of the one that it is a part of. A report goes in the transaction that takes back
// evidence of a member, and so does the membership of an entity that has no evidence left.

CREATE CONSTRAINT community_id IF NOT EXISTS
FOR (n:Community) REQUIRE (n.workspace, n.id) IS UNIQUE

// `rank` is minus the rating, absent without a report: ascending order serves the best first.
CREATE INDEX community_rank IF NOT EXISTS FOR (n:Community) ON (n.workspace, n.level, n.rank, n.id)

CREATE INDEX community_unindexed IF NOT EXISTS FOR (n:Community) ON (n.workspace, n.unindexed)

// How the workspace was divided last, by which job, and what reports have cost.
CREATE CONSTRAINT division_workspace IF NOT EXISTS FOR (n:Division) REQUIRE n.workspace IS UNIQUE
