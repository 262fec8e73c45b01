-- Takes away the blocks that one read handed out, once.
--
-- KEYS: log, the shard's set of logs, its list of damaged blocks. ARGV: name of the log in the set,
-- ttl of damaged blocks in seconds, number of blocks, their digest, damaged blocks.
-- Returns 1, or 0 when something else is at the head of the log.

local log, logs, damaged = unpack(KEYS)
local name, ttl, number, digest = unpack(ARGV, 1, 4)

local blocks = redis.call('LRANGE', log, 0, number - 1)
if redis.sha1hex(table.concat(blocks)) ~= digest then
  return 0
end

redis.call('LTRIM', log, number, -1)
if redis.call('EXISTS', log) == 0 then
  redis.call('SREM', logs, name)
end
for argument = 5, #ARGV do
  redis.call('LPUSH', damaged, ARGV[argument])
  redis.call('LTRIM', damaged, 0, 999)
  redis.call('EXPIRE', damaged, ttl)
end
return 1
