"""The Lua scripts of `app.llm.shared`: the rules of `app.llm.limits.LocalBook`, run in Redis."""

from __future__ import annotations

# running: call -> end of its lease; requests, spent: call -> until when it counts; tokens: call ->
# how many (and their sum); waiting: call -> since when; asked: call -> when last; wanted: call ->
# tokens; pace: when the next request and token are on time; peers: process -> until when.
NAMES = ("running", "requests", "spent", "tokens", "waiting", "asked", "wanted", "pace", "peers")

_COMMON = """
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local function n(value) return tonumber(value or '0') or 0 end
local function put(key, score, member)
  redis.call('ZADD', key, string.format('%.6f', score), member)
end
local function set(key, field, value)
  redis.call('HSET', key, field, string.format('%.6f', value))
end
local running, requests, spent, tokens = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local waiting, asked, wanted, pace, peers = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local function withdraw(id)
  redis.call('ZREM', waiting, id); redis.call('ZREM', asked, id); redis.call('HDEL', wanted, id)
end
"""

# KEYS as `NAMES`, circuit. ARGV: call, tokens, urgent, probes, probe, process, concurrency,
# requests, tokens and period of the limits, then the constants as `RedisBook` passes them.
# Answers kind, seconds, the time, processes.
ASK = (
    _COMMON
    + """
local circuit = KEYS[10]
local id, cost = ARGV[1], n(ARGV[2])
local urgent, probes, probe, me = ARGV[3] == '1', ARGV[4] == '1', ARGV[5] == '1', ARGV[6]
local slots, most, budget, period = n(ARGV[7]), n(ARGV[8]), n(ARGV[9]), n(ARGV[10])
local burst, under_way, head_start, stale = n(ARGV[11]), n(ARGV[12]), n(ARGV[13]), n(ARGV[14])
local lease, first_pause, peer_time, kept = n(ARGV[15]), n(ARGV[16]), n(ARGV[17]), ARGV[18]
put(peers, now + peer_time, me)
redis.call('ZREMRANGEBYSCORE', peers, '-inf', now)
local function say(kind, seconds)
  return {kind, string.format('%.6f', seconds), string.format('%.6f', now),
          tostring(redis.call('ZCARD', peers))}
end

local c = redis.call('HMGET', circuit, 'until', 'level', 'why', 'probing')
local shut = nil
if not probe then
  if n(c[1]) > now then
    shut = say(c[3] or 'busy', n(c[1]) - now)
  elseif n(c[2]) > 0 and c[3] == 'failed' and probes then
    if n(c[4]) > now then
      shut = say('failed', math.min(first_pause, n(c[4]) - now))
    else
      set(circuit, 'probing', now + lease)
      shut = say('probe', 0)
    end
  end
end
if shut then withdraw(id); return shut end

redis.call('ZREMRANGEBYSCORE', running, '-inf', now)
redis.call('ZREMRANGEBYSCORE', requests, '-inf', now)
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', spent, '-inf', now)) do
  redis.call('HINCRBY', tokens, 'sum', -n(redis.call('HGET', tokens, gone)))
  redis.call('HDEL', tokens, gone); redis.call('ZREM', spent, gone)
end
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', asked, '-inf', now - stale)) do withdraw(gone) end

if not redis.call('ZSCORE', waiting, id) then
  put(waiting, urgent and now - head_start or now, id)
  redis.call('HSET', wanted, id, cost)
end
put(asked, now, id)
local ahead = redis.call('ZRANK', waiting, id)
local wait = 0
if most > 0 then
  local over = redis.call('ZCARD', requests) + ahead + 1 - most
  if over > 0 then
    local at = math.min(over, redis.call('ZCARD', requests)) - 1
    local first = redis.call('ZRANGE', requests, at, at, 'WITHSCORES')
    wait = math.max(wait, first[2] and n(first[2]) - now or 1)
  end
  wait = math.max(wait, n(redis.call('HGET', pace, 'request')) - burst - now)
end
if budget > 0 then
  local sum, before = n(redis.call('HGET', tokens, 'sum')), 0
  if ahead > 0 then
    for _, other in ipairs(redis.call('ZRANGE', waiting, 0, ahead - 1)) do
      before = before + n(redis.call('HGET', wanted, other))
    end
  end
  local over = sum + before + cost - budget
  if over > 0 and sum + before > 0 then
    local until_ = now + 1
    for _, old in ipairs(redis.call('ZRANGE', spent, 0, 99)) do
      over = over - n(redis.call('HGET', tokens, old))
      until_ = n(redis.call('ZSCORE', spent, old))
      if over <= 0 then break end
    end
    wait = math.max(wait, until_ - now)
  end
  wait = math.max(wait, n(redis.call('HGET', pace, 'token')) - burst - now)
end
if wait > 0 then return say('wait', wait) end
if redis.call('ZCARD', running) + ahead >= slots then return say('full', 0) end

withdraw(id)
put(running, now + lease, id)
if most > 0 then
  put(requests, now + period + under_way, id)
  set(pace, 'request', math.max(n(redis.call('HGET', pace, 'request')), now) + period / most)
end
if budget > 0 then
  put(spent, now + lease + period, id)
  redis.call('HSET', tokens, id, cost); redis.call('HINCRBY', tokens, 'sum', cost)
  set(pace, 'token', math.max(n(redis.call('HGET', pace, 'token')), now) + cost * period / budget)
end
for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, kept) end
return say('go', 0)
"""
)

# KEYS as above. ARGV: call, used (-1: unknown), outcome, probes, probe, since, last, pause if the
# server asked for one (0: none), jitter, tokens and period of the limits, constants.
LEAVE = (
    _COMMON
    + """
local circuit = KEYS[10]
local id, used, outcome = ARGV[1], n(ARGV[2]), ARGV[3]
local probes, probe, since, last = ARGV[4] == '1', ARGV[5] == '1', n(ARGV[6]), ARGV[7] == '1'
local asked_for, jitter, budget, period = n(ARGV[8]), n(ARGV[9]), n(ARGV[10]), n(ARGV[11])
local suspect_at, lease, first_pause = n(ARGV[12]), n(ARGV[13]), n(ARGV[14])
local longest, strict, kept = n(ARGV[15]), n(ARGV[16]), ARGV[17]
redis.call('ZREM', running, id)
local old = redis.call('HGET', tokens, id)
if outcome == 'busy' then set(tokens, 'strict', now + strict) end
if old and n(redis.call('HGET', tokens, 'strict')) > now then used = math.max(used, n(old)) end
if budget > 0 and old then
  local more = used >= 0 and used - n(old) or 0
  put(spent, now + period, id)
  if more ~= 0 then
    redis.call('HSET', tokens, id, used); redis.call('HINCRBY', tokens, 'sum', more)
    set(pace, 'token', n(redis.call('HGET', pace, 'token')) + more * period / budget)
  end
end

local c = redis.call('HMGET', circuit, 'until', 'level', 'why', 'probing', 'worked', 'failures')
local until_, level, why, probing, worked = n(c[1]), n(c[2]), c[3], n(c[4]), n(c[5])
if probe then probing = 0; set(circuit, 'probing', 0) end
local works, suspect = worked > since, false
if outcome == 'ok' then
  set(circuit, 'worked', now); redis.call('HDEL', circuit, 'failures')
  works = true
  if until_ <= now or why == 'failed' then
    until_ = 0
    redis.call('HDEL', circuit, 'level', 'until', 'why')
  end
elseif outcome == 'busy' or (outcome == 'failed' and probe) then
  if until_ <= now then
    level = redis.call('HINCRBY', circuit, 'level', 1)
    redis.call('HSET', circuit, 'why', outcome)
    if asked_for <= 0 then
      asked_for = math.min(longest, first_pause * 2 ^ (level - 1)) * jitter
    end
  end
  until_ = math.max(until_, now + asked_for)
  set(circuit, 'until', until_)
elseif outcome == 'failed' then
  local failures = redis.call('HINCRBY', circuit, 'failures', 1)
  suspect = probes and not works and until_ <= now and probing <= now
    and (last or failures >= suspect_at)
  if suspect then set(circuit, 'probing', now + lease) end
end
redis.call('EXPIRE', circuit, kept)
return {works and 1 or 0, suspect and 1 or 0, math.ceil(math.max(0, until_ - now) * 1000)}
"""
)

# KEYS as above. ARGV: period, lease, whether one of them is a harmless call, calls.
RENEW = (
    _COMMON
    + """
if ARGV[3] == '1' then set(KEYS[10], 'probing', now + n(ARGV[2])) end
for i = 4, #ARGV do
  put(running, now + n(ARGV[2]), ARGV[i])
  if redis.call('HEXISTS', tokens, ARGV[i]) == 1 then
    put(spent, now + n(ARGV[2]) + n(ARGV[1]), ARGV[i])
  end
end
return 0
"""
)
WITHDRAW = _COMMON + "withdraw(ARGV[1]); return 0"
