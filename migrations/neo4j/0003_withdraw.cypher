// What it takes to bring a document back to its visible revision. `published` on a chunk: that
// revision has it. Other visible ones are seen ahead of their revision, or are left of an earlier one.

MATCH (d:Document)-[:HAS_CHUNK]->(c)
WHERE d.live IS NOT NULL AND c.published IS NULL
SET c.published = true
