// Evaluations and what they have measured so far. An evaluation has the id of its job.

CREATE CONSTRAINT evaluation_id IF NOT EXISTS FOR (n:Evaluation) REQUIRE n.id IS UNIQUE

CREATE INDEX evaluation_newest IF NOT EXISTS FOR (n:Evaluation) ON (n.workspace, n.order)

CREATE CONSTRAINT outcome_id IF NOT EXISTS FOR (n:Outcome) REQUIRE (n.evaluation, n.key) IS UNIQUE
