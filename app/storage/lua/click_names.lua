-- How the sorted sets of a shard name its clicks: 2:<8 digits of the id's SHA-1>:<id>; bare ids are
-- of version 1.

local function name_of_click(id)
  return '2:' .. string.sub(redis.sha1hex(id), 1, 8) .. ':' .. id
end

-- Nothing where the name is damaged.
local function click_of_name(name)
  local id = string.match(name, '^2:%x%x%x%x%x%x%x%x:(.*)$')
  if id and name_of_click(id) ~= name then
    return nil
  end
  return id or name
end
