#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/decoder_kv_batch.hpp"
#include "cache/decoder_kv_config.hpp"

namespace tutti {

/// The decoder K/V of one group of rows, the beam of one utterance, in buffers of its own: a row is one page
/// as long as the group may grow. Rows are told apart by their place, lane 0 on.
///
/// Selecting moves what it must: a row that is kept once stays where it is and only its lane changes; each
/// further copy of it takes the buffer of a row that was dropped. Nothing allocates memory after
/// construction.
class DenseDecoderKv final : public DecoderKvBatch {
 public:
  /// Buffers for `config.max_rows` rows of `config.max_row_tokens` entries; pages play no part. Throws
  /// std::invalid_argument for a config that does not validate.
  DenseDecoderKv(const DecoderKvConfig& config, Ops& ops);

  /// Starts over with `lanes` empty rows. Throws std::invalid_argument unless 0 <= lanes <= max_rows.
  void reset(int lanes);
  /// Throws std::invalid_argument unless tokens has a count >= 1 for each lane, std::logic_error when a row
  /// would outgrow its buffer.
  void prepare_step(std::span<const int> tokens);
  /// Counts the entries that the model wrote, at most those prepared (std::logic_error).
  void commit_step(std::span<const int> tokens);

  /// Lane i becomes what lane lanes[i] was, scales included. What was prepared is abandoned. Throws
  /// std::invalid_argument for more lanes than max_rows or a lane that is not there, and then changes
  /// nothing.
  void select(std::span<const int32_t> lanes) override;
  /// Appends copies of another group's lanes. Throws std::invalid_argument for another geometry or format, or
  /// when there is no room for the rows or for what they hold; expected vs actual.
  void merge(const DenseDecoderKv& other);

  [[nodiscard]] DecoderKv layer(int layer) const override;
  [[nodiscard]] int lanes() const override { return lanes_; }
  [[nodiscard]] int cached_tokens(int lane) const;
  [[nodiscard]] int max_rows() const { return config_.max_rows; }
  [[nodiscard]] int capacity() const { return config_.max_row_tokens; }
  [[nodiscard]] size_t bytes() const;

 private:
  void require_count(const char* where, size_t count) const;
  [[nodiscard]] int32_t take_row();
  void copy_row(const DenseDecoderKv& from, int32_t from_row, int32_t to_row, int tokens);

  DecoderKvConfig config_;
  Ops& ops_;
  Tensor k_, v_;                // (layers, max_rows, capacity, n_kv_head, head_dim)
  Tensor k_scales_, v_scales_;  // (layers, max_rows, capacity, n_kv_head) beside f8e4m3
  int lanes_ = 0;
  std::vector<int32_t> rows_;           // lane -> row of the buffers; past the lanes, the rows nobody has
  std::vector<int32_t> cache_seqlens_;  // by lane
  std::vector<int32_t> prepared_;       // by lane
  std::vector<int32_t> selected_rows_, selected_seqlens_;  // of a selection under way
  std::vector<bool> taken_;                                // by row
};

}  // namespace tutti
