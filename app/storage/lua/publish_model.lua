-- Adds a staged model to those of its target: all of it, or nothing.
--
-- KEYS: lease, the staged model, the target's models.
-- ARGV: token of the lease, version, number of models to keep, prefix of the keys of models.
-- Returns 0 published | 1 the lease is lost | 2 the staged model expired.
--
-- LPUSH comes first: out of memory, Redis refuses the first write of a script and no later one.

local lease, staged, models = unpack(KEYS)
local token, version, kept, prefix = unpack(ARGV)

if redis.call('GET', lease) ~= token then
  return 1
end
if redis.call('EXISTS', staged) == 0 then
  return 2
end

redis.call('LPUSH', models, version)
redis.call('PERSIST', staged)
for _, dropped in ipairs(redis.call('LRANGE', models, kept, -1)) do
  redis.call('UNLINK', prefix .. dropped)
end
redis.call('LTRIM', models, 0, kept - 1)
return 0
