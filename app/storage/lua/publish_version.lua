-- Brings a staged version into force: all of it, or nothing.
--
-- KEYS: lease, the staged version, pointer to the version in force, history, frozen maps, counter of
--       freezes.
-- ARGV: token of the lease, version, number of versions to keep, prefix of the keys of versions,
--       channel of the notice, the version that must be in force ('' for any), what the counter of
--       freezes must be ('' for any), number of targets that get new maps, these targets, versions that
--       are dropped before others while there are too many.
-- Returns 0 published | 1 the lease is lost | 2 the staged version expired | 3 another version is in
--   force by now, a target is frozen, or there was a freeze since.
--
-- SET comes first: out of memory, Redis refuses the first write of a script and never a later one.
-- The notice is a hint, and all is done when it goes out: a user who may not send it still publishes.

local lease, staged, current, history, frozen, freezes = unpack(KEYS)
local token, version, kept, prefix, channel, expected, freezes_expected = unpack(ARGV, 1, 7)
local last_target = 8 + tonumber(ARGV[8])

if redis.call('GET', lease) ~= token then
  return 1
end
if redis.call('EXISTS', staged) == 0 then
  return 2
end
if expected ~= '' and redis.call('GET', current) ~= expected then
  return 3
end
if freezes_expected ~= '' and (redis.call('GET', freezes) or '0') ~= freezes_expected then
  return 3
end
for argument = 9, last_target do
  if redis.call('HEXISTS', frozen, ARGV[argument]) == 1 then
    return 3
  end
end

redis.call('SET', current, version)
redis.call('PERSIST', staged)
redis.call('LPUSH', history, version)
for argument = last_target + 1, #ARGV do
  if redis.call('LLEN', history) <= tonumber(kept) then
    break
  end
  redis.call('LREM', history, 1, ARGV[argument])
  redis.call('UNLINK', prefix .. ARGV[argument])
end
for _, dropped in ipairs(redis.call('LRANGE', history, kept, -1)) do
  redis.call('UNLINK', prefix .. dropped)
end
redis.call('LTRIM', history, 0, kept - 1)
redis.pcall('PUBLISH', channel, version)
return 0
