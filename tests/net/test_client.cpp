#include "tests/net/test_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <utility>

namespace tutti {
namespace {

bool wait_for(int socket, short events, std::chrono::milliseconds timeout) {
  pollfd entry{socket, events, 0};
  return ::poll(&entry, 1, static_cast<int>(timeout.count())) > 0;
}

// Too short to matter for the suite, long enough for a server that reads to take something.
constexpr std::chrono::milliseconds blocked_after{300};

}  // namespace

int TestClient::Frame::close_code() const {
  if (payload.size() < 2) return 0;
  return static_cast<uint8_t>(payload[0]) * 256 + static_cast<uint8_t>(payload[1]);
}

TestClient::TestClient(const std::string& address, int receive_buffer) {
  const size_t colon = address.rfind(':');
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &peer.sin_addr);
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer > 0)
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&peer), sizeof peer) != 0) {
    close();
    throw std::runtime_error("cannot connect to " + address);
  }
}

TestClient::TestClient(TestClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), received_(std::move(other.received_)) {}

TestClient::~TestClient() { close(); }

void TestClient::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void TestClient::reset() {
  const linger immediately{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &immediately, sizeof immediately);
  close();
}

size_t TestClient::send_until_blocked(std::string_view bytes) {
  size_t sent = 0;
  while (sent < bytes.size() && wait_for(socket_, POLLOUT, blocked_after)) {
    const ssize_t taken =
        ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken < 0) break;
    sent += static_cast<size_t>(taken);
  }
  return sent;
}

void TestClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!wait_for(socket_, POLLOUT, patience)) throw std::runtime_error("the server does not read");
    const ssize_t taken = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    // A server may end a session while its client still sends; what it said is then read.
    if (taken < 0) return;
    bytes.remove_prefix(static_cast<size_t>(taken));
  }
}

bool TestClient::fill() {
  if (!wait_for(socket_, POLLIN, patience)) throw std::runtime_error("the server says nothing");
  char buffer[65536];
  const ssize_t bytes = ::recv(socket_, buffer, sizeof buffer, 0);
  if (bytes <= 0) return false;
  received_.append(buffer, static_cast<size_t>(bytes));
  return true;
}

std::string TestClient::take(size_t bytes) {
  while (received_.size() < bytes) {
    if (!fill()) throw std::runtime_error("the connection ended within a message");
  }
  std::string taken = received_.substr(0, bytes);
  received_.erase(0, bytes);
  return taken;
}

bool TestClient::at_end() { return received_.empty() && !fill(); }

TestClient::Response TestClient::read_response(bool has_body) {
  size_t header_end = 0;
  while ((header_end = received_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) throw std::runtime_error("the connection ended before a response");
  }
  const std::string header = take(header_end + 4);
  Response response;
  response.status = std::stoi(header.substr(header.find(' ') + 1, 3));
  for (size_t begin = header.find("\r\n") + 2; begin + 2 < header.size();) {
    const size_t end = header.find("\r\n", begin);
    const size_t colon = header.find(':', begin);
    std::string name = header.substr(begin, colon - begin);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    response.headers[name] = header.substr(colon + 2, end - colon - 2);
    begin = end + 2;
  }
  if (has_body && response.headers.contains("content-length")) {
    response.body = take(std::stoul(response.headers["content-length"]));
  }
  return response;
}

TestClient::Response TestClient::request(std::string_view method, std::string_view target) {
  send(std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: test\r\n\r\n");
  return read_response(method != "HEAD");
}

TestClient::Response TestClient::upgrade(std::string_view target) {
  send("GET " + std::string(target) +
       " HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
       "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  return read_response();
}

std::string TestClient::frame(Opcode opcode, std::string_view payload, bool fin) {
  constexpr char mask[4] = {0x12, 0x34, 0x56, 0x78};
  std::string bytes(1, static_cast<char>((fin ? 0x80 : 0) | opcode));
  const size_t size = payload.size();
  const int length_bytes = size < 126 ? 0 : size < 65536 ? 2 : 8;
  const size_t marker = length_bytes == 0 ? size : length_bytes == 2 ? 126 : 127;
  bytes += static_cast<char>(0x80 | marker);
  for (int i = length_bytes - 1; i >= 0; --i) bytes += static_cast<char>(size >> (8 * i));
  bytes.append(mask, 4);
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(payload[i] ^ mask[i % 4]);
  return bytes;
}

std::optional<TestClient::Frame> TestClient::read_frame() {
  if (at_end()) return std::nullopt;
  Frame frame;
  const std::string head = take(2);
  frame.opcode = static_cast<uint8_t>(head[0]) & 0x0F;
  size_t size = static_cast<uint8_t>(head[1]) & 0x7F;
  if (size >= 126) {
    const std::string length = take(size == 126 ? 2 : 8);
    size = 0;
    for (const char byte : length) size = size * 256 + static_cast<uint8_t>(byte);
  }
  frame.payload = take(size);
  return frame;
}

std::optional<TestClient::Frame> TestClient::read_message() {
  while (true) {
    auto frame = read_frame();
    if (!frame || frame->opcode != ping) return frame;
  }
}

}  // namespace tutti
