-- Brings a staged version into force in the place of one: all of it, or nothing.
--
-- KEYS: pointer to the version in force, counter of versions, history, the staged version.
-- ARGV: what the pointer and the counter must hold ('' for nothing), number of the staged version,
--       its id, number of versions to keep, channel of the notice, prefix of the keys of versions.
-- Returns 1, or 0 where the store holds something else by now.

local current, sequence, history, staged = unpack(KEYS)
local found, counted, number, version, kept, channel, prefix = unpack(ARGV)

if (redis.call('GET', current) or '') ~= found or (redis.call('GET', sequence) or '') ~= counted then
  return 0
end

redis.call('SET', current, version)
redis.call('SET', sequence, number)
redis.call('PERSIST', staged)
redis.call('LPUSH', history, version)
for _, dropped in ipairs(redis.call('LRANGE', history, kept, -1)) do
  redis.call('UNLINK', prefix .. dropped)
end
redis.call('LTRIM', history, 0, kept - 1)
redis.pcall('PUBLISH', channel, version)
return 1
