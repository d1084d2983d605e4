#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cache/attention_cache.hpp"
#include "tests/cache/host_ops.hpp"

namespace tutti {

/// Chunk and block sizes, left context, whether chunks are mostly prepared and committed short, whether the
/// window is there from the start, and whether the oldest block makes way at capacity.
struct Geometry {
  int chunk;
  int block;
  bool short_chunks;
  int left;
  bool prefilled = false;
  bool recycled = false;
};
/// "Chunk6Block4Left1"
[[nodiscard]] std::string to_string(const Geometry& geometry);
inline void PrintTo(const Geometry& geometry, std::ostream* out) { *out << to_string(geometry); }

/// Drives an AttentionCacheManager with random operations, side by side with a model in which a stream is a
/// plain list of the frames in its window. A frame is a number; what the caches hold of it is written and
/// read through the addresses of fill_batch, as a kernel would, or in the dense form. The pool holds fewer
/// streams than the manager has rows for, and a scratch block, which lanes of padding fill with NaNs.
class CacheModel {
 public:
  CacheModel(const Geometry& geometry, uint64_t seed);

  /// One random operation, then every invariant.
  void step();

  /// How often the rare cases came up.
  struct Coverage {
    int refused_admissions = 0;
    int exhausted_batches = 0;
    int at_capacity = 0;
    int short_commits = 0;
    int evicted_blocks = 0;
    int padded_batches = 0;
    int dense_commits = 0;
  };
  [[nodiscard]] const Coverage& coverage() const { return coverage_; }

 private:
  struct Stream {
    std::deque<int> window;
    int64_t end = 0;  // frames since the stream began, those of a prefilled window included
    int prepared = 0;
    std::vector<int> written;     // behind the window, not committed
    std::vector<int32_t> blocks;  // physical, and the number of the first since the stream began
    int64_t first_block = 0;
  };
  struct Batch {
    std::vector<StreamId> ids;
    std::vector<int> frames;
  };

  void admit();
  void tick();
  void prepare_only();
  void prepare_while_an_outsider_holds_blocks();
  void commit_one();
  void commit_one_dense();
  void read_one_dense();
  void finalize_one();
  void reset_one();
  void cancel_one();
  void make_refused_calls();

  /// Reads the lanes' histories, writes their new frames and commits some of them.
  void run(const std::vector<StreamId>& ids);
  void commit_all(const std::vector<StreamId>& ids);
  void check_history(const Stream& s, int lane) const;
  void write_frames(Stream& s, int lane);
  void write_padding(int first_lane);
  void commit(StreamId id, int frames);
  void append(Stream& s, int frames);

  [[nodiscard]] Stream new_stream() const;
  [[nodiscard]] int prefill() const { return geometry_.prefilled ? geometry_.chunk * geometry_.left : 0; }
  [[nodiscard]] int64_t first_block(const Stream& s) const;
  [[nodiscard]] int blocks_with(const Stream& s, int frames) const;
  [[nodiscard]] int missing_blocks(const Batch& batch);
  void mark_prepared(const Batch& batch);

  void check_invariants();
  void check_stream(StreamId id, Stream& s);
  void check_views(StreamId id, std::span<const int32_t> table);
  void check_ownership();

  [[nodiscard]] int random(int min, int max);
  [[nodiscard]] int random_length(int full);
  [[nodiscard]] StreamId random_stream();
  [[nodiscard]] Batch random_batch();

  Geometry geometry_;
  std::mt19937_64 random_;
  HostOps ops_;
  BlockPool pool_;
  AttentionCacheManager cache_;
  PagedKvCache batch_;
  std::map<StreamId, Stream> streams_;
  StreamId next_id_ = 1;
  int next_frame_ = 1;
  std::vector<bool> owned_;
  Coverage coverage_;
};

}  // namespace tutti
