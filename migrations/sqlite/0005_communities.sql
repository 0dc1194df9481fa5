-- Communities of entities and reports on them. A report goes in the transaction that takes back
-- evidence of a member, and so does the membership of an entity that has no evidence left.

create table communities (
    seq integer primary key autoincrement,
    workspace text not null,
    id text not null,
    level integer not null,
    parent text not null,
    leaf integer not null,
    version integer not null default 0,  -- counts what makes a report in the making void
    report text,                         -- JSON
    rating real not null default 0,
    wanting integer not null default 0,  -- 1: the report is not the model's that it should be
    covered integer not null default 0,  -- mentions of the members that the report was made from
    pointed integer not null default 0,  -- 1: there may be a point
    indexed integer not null default 0,  -- 1: the point is of this report
    digest text not null default '',
    gone integer not null default 0,     -- waits for the deletion of its point
    unique (workspace, id)
);

create index communities_by_level on communities (workspace, level, id) where gone = 0;
create index communities_by_rating on communities (workspace, level, rating desc, id)
    where gone = 0 and report is not null;
create index communities_by_parent on communities (workspace, parent);
create index communities_unindexed on communities (workspace, id)
    where (report is null and pointed = 1) or (report is not null and indexed = 0);

create table members (
    entity integer not null,
    community integer not null,
    primary key (entity, community)
) without rowid;

create index members_by_community on members (community, entity);

-- How the workspace was divided last, by which job, and what reports have cost.
create table divisions (
    workspace text primary key,
    job_id text not null,
    clustering text not null,
    llm_calls integer not null default 0,
    prompt_tokens integer not null default 0,
    completion_tokens integer not null default 0,
    cost real not null default 0
) without rowid;
