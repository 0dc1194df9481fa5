-- Names of which some mentions are placed to another: they follow where that one is placed.
create index placements_towards on placements (workspace, entity, key) where scope <> '';
