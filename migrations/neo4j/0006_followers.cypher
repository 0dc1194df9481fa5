// Names of which some mentions are placed to another: they follow where that one is placed.
CREATE INDEX placement_towards IF NOT EXISTS FOR (n:Placement) ON (n.workspace, n.entity, n.key)
