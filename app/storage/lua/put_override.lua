-- Sets a calibrator of a campaign's own, unless that makes too many.
--
-- KEYS: the calibrators of campaigns.
-- ARGV: target and campaign, calibrator, most that there may be.
-- Returns 1, or 0 when nothing was set.

local overrides = KEYS[1]
local campaign, calibrator, most = unpack(ARGV)

if redis.call('HEXISTS', overrides, campaign) == 0
    and redis.call('HLEN', overrides) >= tonumber(most) then
  return 0
end
redis.call('HSET', overrides, campaign, calibrator)
return 1
