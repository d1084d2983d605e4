#pragma once

#include <cstdint>
#include <string>

namespace tutti {

/// The opcodes a pickle of protocol 2 needs for data: constants, containers, the memo, and, under the
/// reader's control, globals, calls and persistent ids. Source: CPython's Lib/pickletools.py.
enum class PickleOpcode : uint8_t {
  mark = '(',
  stop = '.',
  binint = 'J',
  binint1 = 'K',
  binint2 = 'M',
  none = 'N',
  binpersid = 'Q',
  reduce = 'R',
  binunicode = 'X',
  append = 'a',
  build = 'b',
  global = 'c',
  appends = 'e',
  binget = 'h',
  long_binget = 'j',
  binput = 'q',
  long_binput = 'r',
  setitem = 's',
  tuple = 't',
  setitems = 'u',
  empty_tuple = ')',
  empty_list = ']',
  empty_dict = '}',
  binfloat = 'G',
  proto = 0x80,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8a,
};

/// "INST (0x69)" for the message that refuses an opcode; "0xff" when pickle has none of that number.
[[nodiscard]] std::string refused_opcode_name(uint8_t opcode);

}  // namespace tutti
