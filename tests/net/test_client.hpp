#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

/// A client on a plain socket, so that tests can send what no library would: broken frames, odd splits, half
/// a message. Every wait ends after `patience` with an exception or an empty result.
class TestClient {
 public:
  static constexpr std::chrono::seconds patience{20};

  enum Opcode : uint8_t { continuation = 0, text = 1, binary = 2, close_frame = 8, ping = 9, pong = 10 };
  struct Frame {
    uint8_t opcode = 0;
    std::string payload;
    /// Of a close frame; 0 when it has none.
    [[nodiscard]] int close_code() const;
  };
  struct Response {
    int status = 0;
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;
  };

  /// Connects to "127.0.0.1:PORT". `receive_buffer` bytes, if given, bound what the kernel takes in unread.
  explicit TestClient(const std::string& address, int receive_buffer = 0);
  TestClient(TestClient&& other) noexcept;
  TestClient& operator=(TestClient&&) = delete;
  ~TestClient();

  void send(std::string_view bytes);
  /// Sends until the socket has taken nothing for a while; returns how much it took.
  [[nodiscard]] size_t send_until_blocked(std::string_view bytes);
  /// Ends with a reset instead of an orderly close.
  void reset();
  void close();

  /// Reads one response. `has_body` is false for HEAD.
  [[nodiscard]] Response read_response(bool has_body = true);
  [[nodiscard]] Response request(std::string_view method, std::string_view target);
  [[nodiscard]] std::string read_bytes(size_t bytes) { return take(bytes); }
  /// Nothing more comes: true at the end of the stream or a reset.
  [[nodiscard]] bool at_end();

  /// Asks for a WebSocket; the status is 101 when it was granted.
  [[nodiscard]] Response upgrade(std::string_view target);
  [[nodiscard]] static std::string frame(Opcode opcode, std::string_view payload, bool fin = true);
  void send_frame(Opcode opcode, std::string_view payload, bool fin = true) {
    send(frame(opcode, payload, fin));
  }
  /// The next frame; nullopt at the end of the stream.
  [[nodiscard]] std::optional<Frame> read_frame();
  /// The next frame that is no ping.
  [[nodiscard]] std::optional<Frame> read_message();

 private:
  bool fill();
  [[nodiscard]] std::string take(size_t bytes);

  int socket_ = -1;
  std::string received_;
};

}  // namespace tutti
