-- Puts folded bins in the place of the blocks they were folded from, exactly once.
--
-- KEYS: log, bins, the shard's set of logs, its sorted set of hours, its list of damaged blocks.
-- ARGV: name of the log in the sets, ttl in seconds, folds and number of blocks that the fold saw,
--   the new table, number of breakdowns, of each its name and its bytes, damaged blocks.
-- Returns 1, or 0 when another fold came first and nothing was done.

local log, bins, logs, hours, damaged = unpack(KEYS)
local member, ttl, folds, blocks, new_table = unpack(ARGV, 1, 5)
local last_of_breakdowns = 6 + 2 * tonumber(ARGV[6])

if (redis.call('HGET', bins, 'folds') or '0') ~= folds then
  return 0
end
if redis.call('LLEN', log) < tonumber(blocks) then
  return 0 -- the log expired under the fold, and may have begun anew
end

local next_fold = (tonumber(folds) or 0) + 1
redis.call('HSET', bins, 'table', new_table, 'folds', next_fold, unpack(ARGV, 7, last_of_breakdowns))
redis.call('EXPIRE', bins, ttl)
redis.call('LTRIM', log, blocks, -1)
if redis.call('EXISTS', log) == 0 then
  redis.call('SREM', logs, member)
end
for argument = last_of_breakdowns + 1, #ARGV do
  redis.call('LPUSH', damaged, ARGV[argument])
  redis.call('LTRIM', damaged, 0, 999)
  redis.call('EXPIRE', damaged, ttl)
end

local now = tonumber(redis.call('TIME')[1])
redis.call('ZADD', hours, now + ttl, member)
redis.call('ZREMRANGEBYSCORE', hours, '-inf', now)
return 1
