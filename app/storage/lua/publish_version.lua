-- Brings a staged version into force: all of it, or nothing.
--
-- KEYS: lease, the staged version, pointer to the version in force, history.
-- ARGV: token of the lease, version, number of versions to keep, prefix of the keys of versions.
-- Returns 0 published | 1 the lease is lost | 2 the staged version expired.
--
-- SET comes first: out of memory, Redis refuses the first write of a script and never a later one.

local lease, staged, current, history = unpack(KEYS)
local token, version, kept, prefix = unpack(ARGV)

if redis.call('GET', lease) ~= token then
  return 1
end
if redis.call('EXISTS', staged) == 0 then
  return 2
end

redis.call('SET', current, version)
redis.call('PERSIST', staged)
redis.call('LPUSH', history, version)
for _, dropped in ipairs(redis.call('LRANGE', history, kept, -1)) do
  redis.call('UNLINK', prefix .. dropped)
end
redis.call('LTRIM', history, 0, kept - 1)
return 0
