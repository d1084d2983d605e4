#pragma once

#include <memory>

#include "cluster/byte_reader.hpp"
#include "cluster/byte_writer.hpp"
#include "engine/stream_snapshot.hpp"

namespace tutti::wire {

/// A StreamSnapshot in a frame: all of it but the model.
void write_snapshot(ByteWriter& out, const StreamSnapshot& snapshot);

/// With the model of whoever reads, or null. Takes little more memory than its bytes; whether it fits an
/// engine, Engine::restore finds out.
void read_snapshot(ByteReader& in, const std::shared_ptr<const ConformerCtc>& model,
                   StreamSnapshot& snapshot);

}  // namespace tutti::wire
