#pragma once

#include <cstdint>

namespace tutti::cpu {

/// What the codes of a quantised row mean: value = scale * (code - zero).
struct RowCodes {
  float scale;
  int32_t zero;
};

/// Codes of a row are written in whole blocks of so many; what lies beyond the row's end is unspecified.
constexpr int code_block = 16;

/// Rounds a row to 256 levels between its least and its largest value, of which one is 0: by the row alone,
/// so that its codes do not depend on the batch, and by operations that every instruction set rounds alike. A
/// row that is not finite has a scale of NaN, so that it stays visible.
[[nodiscard]] RowCodes quantize_row(const float* x, int n, uint8_t* codes);

}  // namespace tutti::cpu
