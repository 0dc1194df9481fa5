// One statement per paragraph; each may run twice. Community Edition: unique constraints only.
// Every node and every indexed relationship carries `workspace`, which leads every key.

// --- documents, jobs, API keys ---

CREATE CONSTRAINT document_id IF NOT EXISTS
FOR (n:Document) REQUIRE (n.workspace, n.id) IS UNIQUE

CREATE INDEX document_live_source IF NOT EXISTS FOR (n:Document) ON (n.live_source)

CREATE INDEX document_live_text IF NOT EXISTS FOR (n:Document) ON (n.live_text)

CREATE INDEX document_pending_source IF NOT EXISTS FOR (n:Document) ON (n.pending_source)

CREATE INDEX document_pending_text IF NOT EXISTS FOR (n:Document) ON (n.pending_text)

// What filters look at: one node per document, name and value. Strings, numbers and booleans
// share the property `value`: comparisons only hold within a type.
CREATE INDEX field_value IF NOT EXISTS FOR (n:Field) ON (n.workspace, n.name, n.value)

CREATE CONSTRAINT job_id IF NOT EXISTS FOR (n:Job) REQUIRE n.id IS UNIQUE

CREATE INDEX job_newest IF NOT EXISTS FOR (n:Job) ON (n.workspace, n.order)

CREATE INDEX job_of_document IF NOT EXISTS FOR (n:Job) ON (n.workspace, n.document_id, n.order)

CREATE INDEX job_state IF NOT EXISTS FOR (n:Job) ON (n.workspace, n.state, n.order)

// `latest_of` is the document's id on the job that gives it its status, absent on older ones.
CREATE INDEX job_status IF NOT EXISTS FOR (n:Job) ON (n.workspace, n.status, n.latest_of)

CREATE CONSTRAINT step_id IF NOT EXISTS FOR (n:Step) REQUIRE n.id IS UNIQUE

CREATE INDEX step_overdue IF NOT EXISTS FOR (n:Step) ON (n.overdue_at)

CREATE CONSTRAINT api_key_id IF NOT EXISTS FOR (n:ApiKey) REQUIRE n.id IS UNIQUE

CREATE CONSTRAINT api_key_digest IF NOT EXISTS FOR (n:ApiKey) REQUIRE n.digest IS UNIQUE

// --- chunks ---

CREATE CONSTRAINT chunk_id IF NOT EXISTS FOR (n:Chunk) REQUIRE (n.workspace, n.id) IS UNIQUE

CREATE INDEX chunk_position IF NOT EXISTS
FOR (n:Chunk) ON (n.workspace, n.document_id, n.position)

// `reusable` is the extraction key, only where the chunk has a good extraction.
CREATE INDEX chunk_reusable IF NOT EXISTS FOR (n:Chunk) ON (n.workspace, n.reusable)

// Flags such as `unindexed` are absent where they do not hold, so these indexes stay small.
CREATE INDEX chunk_unindexed IF NOT EXISTS FOR (n:Chunk) ON (n.workspace, n.unindexed)

// --- entities and their other names ---

CREATE CONSTRAINT entity_key IF NOT EXISTS FOR (n:Entity) REQUIRE (n.workspace, n.key) IS UNIQUE

// `rank` is minus the number of mentions, absent without any: ascending order serves paging.
CREATE INDEX entity_rank IF NOT EXISTS FOR (n:Entity) ON (n.workspace, n.rank, n.key)

CREATE TEXT INDEX entity_words IF NOT EXISTS FOR (n:Entity) ON (n.words)

CREATE INDEX entity_unprofiled IF NOT EXISTS FOR (n:Entity) ON (n.workspace, n.unprofiled)

CREATE INDEX entity_unindexed IF NOT EXISTS FOR (n:Entity) ON (n.workspace, n.unindexed)

CREATE CONSTRAINT alias_key IF NOT EXISTS FOR (n:Alias) REQUIRE (n.workspace, n.key) IS UNIQUE

// --- relations ---

CREATE CONSTRAINT relates_key IF NOT EXISTS
FOR ()-[r:RELATES]-() REQUIRE (r.workspace, r.key) IS UNIQUE

// `lightness` is minus the weight in thousandths: a hub's heaviest relations come first.
CREATE INDEX relates_source IF NOT EXISTS
FOR ()-[r:RELATES]-() ON (r.workspace, r.source, r.lightness, r.key)

CREATE INDEX relates_target IF NOT EXISTS
FOR ()-[r:RELATES]-() ON (r.workspace, r.target, r.lightness, r.key)

CREATE INDEX relates_unprofiled IF NOT EXISTS
FOR ()-[r:RELATES]-() ON (r.workspace, r.unprofiled)

CREATE INDEX relates_unindexed IF NOT EXISTS FOR ()-[r:RELATES]-() ON (r.workspace, r.unindexed)

// `renamed` is the revision with which an end got another name, until the vector has it.
CREATE INDEX relates_source_renamed IF NOT EXISTS
FOR ()-[r:RELATES]-() ON (r.workspace, r.source, r.renamed)

CREATE INDEX relates_target_renamed IF NOT EXISTS
FOR ()-[r:RELATES]-() ON (r.workspace, r.target, r.renamed)

// A relation that lost all evidence, until its vector is deleted.
CREATE CONSTRAINT former_relation_key IF NOT EXISTS
FOR (n:FormerRelation) REQUIRE (n.workspace, n.key) IS UNIQUE

// --- evidence: a hub's first pieces are read from an index, without expanding the hub ---
// `described` and `about` repeat the chunk's id where the mention has a description, where the
// chunk is about the entity.

CREATE INDEX mentions_chunk IF NOT EXISTS
FOR ()-[r:MENTIONS]-() ON (r.workspace, r.entity, r.chunk)

CREATE INDEX mentions_described IF NOT EXISTS
FOR ()-[r:MENTIONS]-() ON (r.workspace, r.entity, r.described)

CREATE INDEX mentions_about IF NOT EXISTS
FOR ()-[r:MENTIONS]-() ON (r.workspace, r.entity, r.about)

CREATE INDEX mentions_document IF NOT EXISTS
FOR ()-[r:MENTIONS]-() ON (r.workspace, r.entity, r.document)

CREATE INDEX states_chunk IF NOT EXISTS FOR ()-[r:STATES]-() ON (r.workspace, r.relation, r.chunk)

CREATE INDEX states_described IF NOT EXISTS
FOR ()-[r:STATES]-() ON (r.workspace, r.relation, r.described)

CREATE INDEX states_document IF NOT EXISTS
FOR ()-[r:STATES]-() ON (r.workspace, r.relation, r.document)

// --- what `stats` answers, spread over a few nodes so that writers do not queue for one ---

CREATE CONSTRAINT total_part IF NOT EXISTS
FOR (n:Total) REQUIRE (n.workspace, n.part) IS UNIQUE
