-- Puts the blocks that were made of an hour's ids in the place of these, exactly once.
--
-- KEYS: moved ids, staged blocks, packed blocks.
-- ARGV: number of moved ids and of packed ones that the blocks were made of, number of fields that
--   were staged.
-- Returns 1, or 0 where another has packed them meanwhile, or the hour is over.

local moved, staged, packed = unpack(KEYS)
local from_moved, from_packed, fields = unpack(ARGV)

if redis.call('SCARD', moved) ~= tonumber(from_moved)
    or (redis.call('HGET', packed, 'ids') or '0') ~= from_packed
    or redis.call('HLEN', staged) ~= tonumber(fields) then
  redis.call('UNLINK', staged)
  return 0
end

-- A full store lets all of this pass: it frees memory.
local left = math.max(redis.call('PTTL', moved), redis.call('PTTL', packed))
redis.call('UNLINK', packed)
redis.call('RENAME', staged, packed)
redis.call('PEXPIRE', packed, left)
redis.call('UNLINK', moved)
return 1
