-- Freezes maps, unless that makes too many campaigns.
--
-- KEYS: what is frozen, counter of freezes.
-- ARGV: most that there may be, then of each its name and its sealed time.
-- Returns 1, or 0 when nothing was frozen.
--
-- One that is frozen already keeps its time. A refit that began before sees by the counter that there
-- is more to keep now.

local frozen, freezes = unpack(KEYS)
local new, campaigns = 0, 0
for argument = 2, #ARGV, 2 do
  if redis.call('HEXISTS', frozen, ARGV[argument]) == 0 then
    new = new + 1
    campaigns = campaigns + (string.find(ARGV[argument], ':', 1, true) and 1 or 0)
  end
end
if campaigns > 0 and redis.call('HLEN', frozen) + new > tonumber(ARGV[1]) then
  return 0
end
if new == 0 then
  return 1
end
redis.call('INCR', freezes)
for argument = 2, #ARGV, 2 do
  redis.call('HSETNX', frozen, ARGV[argument], ARGV[argument + 1])
end
return 1
