-- How far a log is folded: <number of the last batch>:<blocks of it that are pinned>:<8 digits of a
-- SHA-1>. Part of read_batch.lua and finish_batch.lua.

local function sealed_mark(key, number, blocks)
  local text = string.format('%.0f:%d', number, blocks)
  return text .. ':' .. string.sub(redis.sha1hex(key .. text), 1, 8)
end

-- Number, blocks, and what is held if that is damaged.
local function read_mark(key)
  local held = redis.call('GET', key)
  local number, blocks = string.match(held or '', '^(%d+):(%d+):%x+$')
  if not number or sealed_mark(key, tonumber(number), tonumber(blocks)) ~= held then
    return 0, 0, held or ''
  end
  return tonumber(number), tonumber(blocks), ''
end
