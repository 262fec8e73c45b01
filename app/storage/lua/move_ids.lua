-- Sets an hour's ids apart to be packed, unless some are already. Ids that come now begin anew.
--
-- KEYS: ids, moved ids. Returns the number of moved ids.

local ids, moved = unpack(KEYS)

if redis.call('EXISTS', moved) == 0 and redis.call('EXISTS', ids) == 1 then
  redis.call('RENAME', ids, moved)
end
return redis.call('SCARD', moved)
