-- Frames of EtherType 0x88B5 as castell sends them: ESP (version 1), its searches (version 2) and schedules in the kernel (version 0x81).
-- docs/src/ethernet.md, crates/esp/README.md and crates/xdp/README.md have the layouts.

local ETHERTYPE = 0x88b5
local VERSION_ESP, VERSION_SEARCH, VERSION_KERNEL = 1, 2, 0x81
-- Behind Ethernet's own 14 bytes, which are another dissector's.
local HEAD_ESP, HEAD_SEARCH, TAG, RANGE, HEAD_KERNEL = 44, 24, 8, 8, 40
local SEARCHES = { [0] = "probe", [1] = "answer", [2] = "port unreachable" }

local castell = Proto("castell", "castell over Ethernet")
local field = castell.fields
local experts = castell.experts

field.version = ProtoField.uint8("castell.version", "Version", base.HEX)
field.bytes = ProtoField.uint16("castell.bytes", "Bytes of payload", base.DEC)
field.payload = ProtoField.bytes("castell.payload", "Payload")

field.flags = ProtoField.uint8("castell.esp.flags", "Flags", base.HEX)
local FLAGS = {
  { "SYN", 1, "a connection is wanted" },
  { "ACK", 2, "acknowledged and edge are true" },
  { "FIN", 4, "nothing follows" },
  { "RST", 8, "there is no such connection" },
  { "RRQ", 16, "asks for what the payload lists" },
  { "TXS", 32, "a transfer starts" },
  { "TXF", 64, "the sender knows of nothing more" },
  { "TXR", 128, "a write ended" },
}
for _, flag in ipairs(FLAGS) do
  local name, bit, what = flag[1], flag[2], flag[3]
  field[name] = ProtoField.bool("castell.esp.flags." .. name:lower(), name .. ": " .. what, 8, nil, bit)
end
field.communicator = ProtoField.uint64("castell.esp.communicator", "Communicator", base.HEX)
field.to_port = ProtoField.uint16("castell.esp.to_port", "To port (rank)", base.DEC)
field.from_port = ProtoField.uint16("castell.esp.from_port", "From port (rank)", base.DEC)
field.to_session = ProtoField.uint32("castell.esp.to_session", "Session of the receiver", base.HEX)
field.from_session = ProtoField.uint32("castell.esp.from_session", "Session of the sender", base.HEX)
field.sequence = ProtoField.uint32("castell.esp.sequence", "Number of the frame", base.DEC)
field.acknowledged = ProtoField.uint32("castell.esp.acknowledged", "Acknowledged: all before have come", base.DEC)
field.edge = ProtoField.uint32("castell.esp.edge", "Edge: the first that may not be sent", base.DEC)
field.stamp = ProtoField.uint32("castell.esp.stamp", "Sender's clock, microseconds", base.DEC)
field.echo = ProtoField.uint32("castell.esp.echo", "Clock that is answered, microseconds", base.DEC)
field.search = ProtoField.uint8("castell.esp.search", "Search", base.DEC, SEARCHES)
field.search_number = ProtoField.uint64("castell.esp.search.number", "Number of the search", base.HEX)
field.range = ProtoField.none("castell.esp.range", "Asked for")
field.range_first = ProtoField.uint32("castell.esp.range.first", "First", base.DEC)
field.range_count = ProtoField.uint32("castell.esp.range.count", "How many", base.DEC)
field.tag = ProtoField.bytes("castell.esp.tag", "Tag")

local KINDS = { [1] = "message", [2] = "request", [3] = "not yet", [4] = "how far are you?", [5] = "so far" }
field.kind = ProtoField.uint8("castell.kernel.kind", "Kind", base.DEC, KINDS)
field.session = ProtoField.uint64("castell.kernel.session", "Session", base.HEX)
field.from_rank = ProtoField.uint32("castell.kernel.from_rank", "From rank", base.DEC)
field.to_rank = ProtoField.uint32("castell.kernel.to_rank", "To rank", base.DEC)
field.message_tag = ProtoField.uint32("castell.kernel.tag", "Tag of the message", base.DEC)
field.run = ProtoField.uint32("castell.kernel.run", "Run", base.DEC)
field.done = ProtoField.uint32("castell.kernel.done", "Done: runs that are through at the sender", base.DEC)
field.message = ProtoField.uint16("castell.kernel.message", "Message of its tag in this run", base.DEC)

experts.short = ProtoExpert.new("castell.short", "The frame is cut off", expert.group.MALFORMED, expert.severity.ERROR)
experts.unknown = ProtoExpert.new("castell.unknown", "Another version than 1 and 0x81", expert.group.PROTOCOL, expert.severity.WARN)

local function names_of(flags)
  local names = {}
  for _, flag in ipairs(FLAGS) do
    if bit.band(flags, flag[2]) ~= 0 then names[#names + 1] = flag[1] end
  end
  return table.concat(names, ", ")
end

local function add_ranges(tree, payload)
  for at = 0, payload:len() - RANGE, RANGE do
    local range = tree:add(field.range, payload(at, RANGE))
    local first, count = payload(at, 4):le_uint(), payload(at + 4, 4):le_uint()
    range:append_text(string.format(": %u, and %u after it", first, count - 1))
    range:add_le(field.range_first, payload(at, 4))
    range:add_le(field.range_count, payload(at + 4, 4))
  end
end

local function dissect_esp(buffer, pinfo, tree)
  if buffer:len() < HEAD_ESP + TAG then
    tree:add_proto_expert_info(experts.short)
    return
  end
  pinfo.cols.protocol = "ESP/castell"
  local flags, bytes = buffer(1, 1):uint(), buffer(2, 2):le_uint()
  local of_flags = tree:add(field.flags, buffer(1, 1))
  of_flags:append_text(" (" .. names_of(flags) .. ")")
  for _, flag in ipairs(FLAGS) do of_flags:add(field[flag[1]], buffer(1, 1)) end
  tree:add_le(field.bytes, buffer(2, 2))
  tree:add_le(field.communicator, buffer(4, 8))
  tree:add_le(field.to_port, buffer(12, 2))
  tree:add_le(field.from_port, buffer(14, 2))
  tree:add_le(field.to_session, buffer(16, 4))
  tree:add_le(field.from_session, buffer(20, 4))
  tree:add_le(field.sequence, buffer(24, 4))
  tree:add_le(field.acknowledged, buffer(28, 4))
  tree:add_le(field.edge, buffer(32, 4))
  tree:add_le(field.stamp, buffer(36, 4))
  tree:add_le(field.echo, buffer(40, 4))
  local info = string.format(
    "rank %u > rank %u [%s] number %u, acknowledged %u, %u bytes",
    buffer(14, 2):le_uint(), buffer(12, 2):le_uint(), names_of(flags),
    buffer(24, 4):le_uint(), buffer(28, 4):le_uint(), bytes
  )
  pinfo.cols.info = info
  tree:append_text(", " .. info)
  -- Behind the tag Ethernet may have filled up the frame.
  if buffer:len() < HEAD_ESP + bytes + TAG then
    tree:add_proto_expert_info(experts.short)
    return
  end
  if bytes > 0 then
    local payload = buffer(HEAD_ESP, bytes)
    if bit.band(flags, 16) ~= 0 then
      add_ranges(tree, payload)
    else
      tree:add(field.payload, payload)
    end
  end
  tree:add(field.tag, buffer(HEAD_ESP + bytes, TAG))
end

local function dissect_search(buffer, pinfo, tree)
  if buffer:len() < HEAD_SEARCH + TAG then
    tree:add_proto_expert_info(experts.short)
    return
  end
  pinfo.cols.protocol = "ESP/castell"
  local kind = buffer(1, 1):uint()
  tree:add(field.search, buffer(1, 1))
  tree:add_le(field.communicator, buffer(4, 8))
  tree:add_le(field.to_port, buffer(12, 2))
  tree:add_le(field.from_port, buffer(14, 2))
  tree:add_le(field.search_number, buffer(16, 8))
  tree:add(field.tag, buffer(HEAD_SEARCH, TAG))
  local info = string.format(
    "rank %u > rank %u [%s]", buffer(14, 2):le_uint(), buffer(12, 2):le_uint(), SEARCHES[kind] or "search " .. kind
  )
  pinfo.cols.info = info
  tree:append_text(", " .. info)
end

local function dissect_kernel(buffer, pinfo, tree)
  if buffer:len() < HEAD_KERNEL then
    tree:add_proto_expert_info(experts.short)
    return
  end
  pinfo.cols.protocol = "XDP/castell"
  local kind, bytes = buffer(1, 1):uint(), buffer(2, 2):le_uint()
  tree:add(field.kind, buffer(1, 1))
  tree:add_le(field.bytes, buffer(2, 2))
  tree:add_le(field.session, buffer(4, 8))
  tree:add_le(field.from_rank, buffer(12, 4))
  tree:add_le(field.to_rank, buffer(16, 4))
  tree:add_le(field.message_tag, buffer(20, 4))
  tree:add_le(field.run, buffer(24, 4))
  tree:add_le(field.done, buffer(28, 4))
  tree:add_le(field.message, buffer(32, 2))
  local info = string.format(
    "rank %u > rank %u [%s] run %u, tag %u, message %u",
    buffer(12, 4):le_uint(), buffer(16, 4):le_uint(), KINDS[kind] or "kind " .. kind,
    buffer(24, 4):le_uint(), buffer(20, 4):le_uint(), buffer(32, 2):le_uint()
  )
  pinfo.cols.info = info
  tree:append_text(", " .. info)
  if kind ~= 1 then return end
  if buffer:len() < HEAD_KERNEL + bytes then
    tree:add_proto_expert_info(experts.short)
  elseif bytes > 0 then
    tree:add(field.payload, buffer(HEAD_KERNEL, bytes))
  end
end

function castell.dissector(buffer, pinfo, root)
  local tree = root:add(castell, buffer())
  tree:add(field.version, buffer(0, 1))
  local version = buffer(0, 1):uint()
  if version == VERSION_ESP then
    dissect_esp(buffer, pinfo, tree)
  elseif version == VERSION_SEARCH then
    dissect_search(buffer, pinfo, tree)
  elseif version == VERSION_KERNEL then
    dissect_kernel(buffer, pinfo, tree)
  else
    tree:add_proto_expert_info(experts.unknown)
  end
end

DissectorTable.get("ethertype"):add(ETHERTYPE, castell)
