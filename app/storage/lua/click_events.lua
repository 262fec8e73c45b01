-- Receives the click events of one request: clicks first, so that the order within it is of no
-- matter, then behaviours and conversions. Part of append.lua; `app.storage.click_events` tells
-- what it is given, and what its refusals mean.
--
-- An event's own first write is one that a full store can refuse (HSET, ZADD or SADD).

local STORED, DUPLICATE = 0, 1
local REUSED, CHANGED_FEATURE, MANY_FEATURES, CLOSED, EARLY = 2, 3, 4, 5, 6
local FULL, MANY_BEHAVIOURS, AFTERWARDS, IMMEDIATE = 7, 8, 9, 10

-- include click_names

local function meet_wrong_types_of_clicks(given)
  local rules, met = given.rules, {}
  for _, events in ipairs({ given.clicks, given.behaviours, given.conversions }) do
    for _, event in ipairs(events) do
      local shard, id = event[2], event[3]
      redis.call('HLEN', string.format(rules.click, shard) .. id)
      if not met[shard] then
        redis.call('ZCARD', string.format(rules.open, shard))
        redis.call('ZCARD', string.format(rules.waiting, shard))
        redis.call('HLEN', string.format(rules.features, shard))
        redis.call('HLEN', string.format(rules.counters, shard))
        met[shard] = true
      end
    end
  end
  for _, event in ipairs(given.clicks) do
    redis.call('HLEN', string.format(rules.clicked, event[2]) .. event[4])
  end
  for _, event in ipairs(given.conversions) do
    redis.call('SCARD', event[5])
  end
end

local function click_events(now, ttl, given)
  local rules = given.rules
  local kinds, names, waiting_for = {}, nil, nil -- asked for when needed, then kept up to date
  local touched = {}

  local function key_of(format, shard, rest)
    return string.format(format, shard) .. rest
  end

  local function is_untimely(at, clicked_at)
    if not tonumber(clicked_at) then
      return CLOSED -- it is damaged, and nothing will come of it
    end
    local elapsed = tonumber(at) - tonumber(clicked_at)
    return elapsed < 0 and EARLY or elapsed >= rules.post_click_seconds and AFTERWARDS
  end

  -- Kind and name of a field that holds a feature.
  local function feature_of(field)
    return string.match(field, '^([ns]):(.*)$')
  end

  local function kind_of(features, name)
    if kinds[name] == nil then
      -- Neither is a flipped bit away from the other: what is neither is damaged, and replaced.
      kinds[name] = string.match(redis.call('HGET', features, name) or '', '^[ns]$') or false
    end
    return kinds[name]
  end

  local function check_features(shard, fields)
    local features = key_of(rules.features, shard, '') -- the same of all that one request names
    names = names or redis.call('HLEN', features)
    local new = {}
    for number = 1, #fields, 2 do
      local kind, name = feature_of(fields[number])
      if kind then
        local known = kind_of(features, name)
        if not known then
          new[#new + 1] = { name, kind }
          if names + #new > rules.max_features then
            return MANY_FEATURES, name
          end
        elseif known ~= kind then
          return CHANGED_FEATURE, name
        end
      end
    end
    for _, feature in ipairs(new) do
      redis.call('HSET', features, unpack(feature))
      kinds[feature[1]] = feature[2]
    end
    names = names + #new
  end

  -- Of behaviours that waited for a click, forgets those that it shows to be untimely.
  local function drop_untimely(shard, key, clicked_at)
    local counters = { [EARLY] = 'early_behaviours', [AFTERWARDS] = 'late_behaviours' }
    local dropped = { [EARLY] = 0, [AFTERWARDS] = 0 }
    for _, field in ipairs(redis.call('HKEYS', key)) do
      local at = string.match(field, '^b:([^:]+):')
      local reason = at and is_untimely(at, clicked_at)
      if reason then
        redis.call('HDEL', key, field)
        dropped[reason] = dropped[reason] + 1
      end
    end
    for reason, counter in pairs(counters) do
      if dropped[reason] > 0 then
        redis.call('HINCRBY', key_of(rules.counters, shard, ''), counter, dropped[reason])
      end
    end
  end

  local function open_click(key, shard, id, at, fields)
    redis.call('HSET', key, unpack(fields))
    redis.call('EXPIRE', key, rules.life_seconds)
    local open = key_of(rules.open, shard, '')
    redis.call('ZADD', open, tonumber(at) + rules.post_click_seconds, name_of_click(id))
  end

  local function end_waiting(key, shard, id, at)
    redis.call('ZREM', key_of(rules.waiting, shard, ''), name_of_click(id), id)
    drop_untimely(shard, key, at)
  end

  local function receive_click(shard, id, hour, mark, at, fields)
    local clicked, key = key_of(rules.clicked, shard, hour), key_of(rules.click, shard, id)
    local campaign = string.sub(mark, 2)
    local known = redis.call('HGET', clicked, id)
    local is_held = not known and redis.call('HLEN', key) > 0
    known = known and string.sub(known, 2) or is_held and redis.call('HGET', key, 'campaign')
    if known then
      return known == campaign and DUPLICATE or REUSED
    end
    local refusal, name = check_features(shard, fields)
    if refusal then
      return refusal, name
    end
    redis.call('HSET', clicked, id, mark)
    touched[clicked] = true
    if #fields > 0 then
      open_click(key, shard, id, at, fields)
      if is_held then
        end_waiting(key, shard, id, at)
      end
    end
    return STORED
  end

  -- Whether a click that is not open was one of the hours remembered, and is not waited for.
  local function refused_by_known_click(shard, id, hour)
    for before = 0, rules.remembered_hours do
      local mark = redis.call('HGET', key_of(rules.clicked, shard, hour - before), id)
      if mark then
        return string.sub(mark, 1, 1) == 'd' and CLOSED or IMMEDIATE
      end
    end
  end

  local function is_room_full(own)
    if not waiting_for then
      waiting_for = 0
      -- In a cluster the other shards are on other servers.
      for shard = rules.alone and own or 0, rules.alone and own or rules.shards - 1 do
        waiting_for = waiting_for + redis.call('ZCARD', key_of(rules.waiting, shard, ''))
      end
    end
    return waiting_for >= rules.max_waiting
  end

  local function begin_waiting(shard, id, hour)
    local waiting, name = key_of(rules.waiting, shard, ''), name_of_click(id)
    if redis.call('ZSCORE', waiting, name) or redis.call('ZSCORE', waiting, id) then
      return
    end
    local refusal = refused_by_known_click(shard, id, hour) or is_room_full(shard) and FULL
    if refusal then
      return refusal
    end
    redis.call('ZADD', waiting, now + rules.waiting_seconds, name)
    waiting_for = waiting_for + 1
    return nil, true
  end

  local function has_many_behaviours(key)
    local most, behaviours = rules.most_behaviours, 0
    if redis.call('HLEN', key) < most then
      return false
    end
    for _, field in ipairs(redis.call('HKEYS', key)) do
      behaviours = behaviours + (string.sub(field, 1, 2) == 'b:' and 1 or 0)
    end
    return behaviours >= most
  end

  local function receive_behaviour(shard, id, hour, at, field, value)
    local key = key_of(rules.click, shard, id)
    local clicked_at, open, known = unpack(redis.call('HMGET', key, 'at', 'open', field))
    if known then
      return DUPLICATE
    end
    if has_many_behaviours(key) then
      return MANY_BEHAVIOURS
    end
    local refusal, begun
    if clicked_at then
      refusal = is_untimely(at, clicked_at) or not open and CLOSED
    else
      refusal, begun = begin_waiting(shard, id, hour)
    end
    if refusal then
      return refusal, clicked_at
    end
    redis.call('HSET', key, field, value)
    if begun then
      redis.call('EXPIRE', key, rules.waiting_seconds + rules.life_seconds)
    end
    return STORED
  end

  local function receive_conversion(shard, id, at, converted, member)
    local clicked_at = redis.call('HGET', key_of(rules.click, shard, id), 'at')
    if clicked_at and tonumber(at) < (tonumber(clicked_at) or 0) then
      return EARLY, clicked_at
    end
    touched[converted] = true
    return redis.call('SADD', converted, member) == 1 and STORED or DUPLICATE
  end

  local statuses, refused, duplicates = {}, {}, 0

  local function receive_all(events, receive)
    for _, event in ipairs(events) do
      local status, detail = receive(unpack(event, 2))
      statuses[#statuses + 1] = status
      if status == DUPLICATE then
        duplicates = duplicates + 1
      elseif status ~= STORED then
        refused[#refused + 1] = { event[1], status, detail or '' }
      end
    end
  end

  receive_all(given.clicks, receive_click)
  receive_all(given.behaviours, receive_behaviour)
  receive_all(given.conversions, receive_conversion)
  for key in pairs(touched) do
    redis.call('EXPIRE', key, ttl)
  end
  return statuses, refused, duplicates
end
