#pragma once

#include <string>

namespace tutti {

/// How one device's recognizer is sized and decodes. Every field is an option of the configuration file, an
/// environment variable and a flag; see config/options.hpp.
struct EngineConfig {
  std::string device = "auto";  ///< "auto", "cpu", "cuda:N", "cuda:N,cuda:N", "cuda:all"
  int owners = 0;               ///< CPU owners; 0 = usable cores
  int max_streams = 64;         ///< per owner
  int max_batch_size = 16;      ///< lanes of one tick
  int chunk_size = 16;          ///< encoder frames
  int num_left_chunks = 4;      ///< -1 = unlimited
  int block_size_frames = 0;    ///< 0 = chunk_size
  int max_num_blocks = 0;       ///< 0 = what max_streams reserve; with unlimited history what memory holds
  int max_blocks_per_seq = 512;
  std::string weights = "fp32";    ///< how weight matrices are held (gpu/weight_type.hpp)
  std::string cpu_level = "auto";  ///< highest instruction set of CPU kernels (gpu/cpu/level.hpp)
  int memory_budget_mib = 0;       ///< of the program, or a GPU beside its model; 0 = most of what is free
  std::string at_capacity = "finalize";  ///< or "recycle": what a stream with unlimited history does
  int max_tick_ms = 40;                  ///< a CPU tick is held to this by its number of lanes
  int max_position_frames = 3000;        ///< the position origin restarts after this many frames; 0 = never
  int max_segment_tokens = 1024;         ///< a longer segment is closed with reason "length"
  int max_buffered_ms = 20000;           ///< audio a stream may have waiting in the engine
  std::string decoder = "prefix";  ///< "greedy", "prefix", or "rescore": prefix, and finals by attention too
  int beam = 10;                   ///< prefixes that prefix search keeps
  // Of rescoring (decode/rescoring.hpp).
  float ctc_weight = -1;           ///< -1 = what the model states
  float reverse_weight = -1;       ///< the same
  int max_rescored_frames = 1024;  ///< encoder frames; a longer segment is closed with reason "length"
  std::string decoder_kv = "f32";  ///< "f32", "bf16" or "fp8_e4m3": how the decoder's K and V are stored
  // When a segment ends by itself, unless a client asks for something else; 0 = never (decode/endpoint.hpp).
  int endpoint_silence_ms = 800;
  int endpoint_long_silence_ms = 5000;
  int max_segment_ms = 30000;
};

}  // namespace tutti
