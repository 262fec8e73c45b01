-- Renames a key whose table is damaged, or that holds another type.
--
-- KEYS: key, its new name. ARGV: SHA-1 of the table that was seen, '' where none could be read; life
-- in seconds. Returns 1, or 0 where there is another table by now.

local key, aside = unpack(KEYS)
local seen, life = unpack(ARGV)

local kind = redis.call('TYPE', key).ok
local held
if kind == 'hash' then
  held = redis.call('HGET', key, 'table')
elseif kind == 'string' then
  held = redis.call('GET', key)
end
if kind == 'none' or seen ~= '' and redis.sha1hex(held or '') ~= seen then
  return 0
end
redis.call('RENAME', key, aside)
redis.call('EXPIRE', aside, life)
return 1
