#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

/// The way of what a device has computed into host memory while it goes on computing: parcels that nobody
/// waits for, first in first out, through memory that is taken once. Made by an Ops, and used by its thread
/// alone, which destroys it first.
///
/// A parcel is filled by operations of the Ops, so it holds what was there between two of them, however soon
/// the next ones overwrite it.
class Outbox {
 public:
  virtual ~Outbox() = default;

  /// The largest parcel there can be, in bytes.
  [[nodiscard]] virtual int64_t capacity() const = 0;
  /// Device memory for a parcel of so many bytes, to be filled and sent before the next is placed. Null while
  /// there is not so much room, or as many parcels as there may be are on their way.
  [[nodiscard]] virtual std::byte* place(int64_t bytes) = 0;
  /// Sends off what was placed last, as it is when all that was queued so far is done.
  virtual void send() = 0;
  /// The oldest parcel on its way, in host memory, if it has arrived; else nothing. Does not wait. Valid
  /// until `drop`.
  [[nodiscard]] virtual std::span<const std::byte> arrived() = 0;
  /// Ends the oldest parcel, which has arrived.
  virtual void drop() = 0;
};

}  // namespace tutti
