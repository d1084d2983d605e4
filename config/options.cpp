#include "config/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace tutti {
namespace {

template <auto Member>
constexpr auto member = [](ServerConfig& config) -> auto& {
  if constexpr (requires { config.*Member; }) {
    return config.*Member;
  } else {
    return config.engine.*Member;
  }
};

template <auto Member>
constexpr WholeNumberField number(int min, int max) {
  return {member<Member>, min, max};
}

template <auto Member>
constexpr WeightField weight(float max) {
  return {member<Member>, max};
}

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || !parse_number<uint16_t>(text.substr(colon + 1))) return false;
  const std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return bracketed || (!host.empty() && host.find_first_of(":[] ") == std::string_view::npos);
}

bool is_address_or_empty(std::string_view text) { return text.empty() || is_address(text); }

bool is_dialect_port(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || !parse_number<uint16_t>(text.substr(0, equals))) return false;
  const std::string_view name = text.substr(equals + 1);
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_' || c == '-';
  });
}

/// "cuda:N", or several with commas between them.
bool are_gpus(std::string_view text) {
  constexpr std::string_view cuda = "cuda:";
  const size_t comma = text.find(',');
  const std::string_view first = text.substr(0, comma);
  if (!first.starts_with(cuda) || !parse_number<uint8_t>(first.substr(cuda.size()))) return false;
  return comma == std::string_view::npos || are_gpus(text.substr(comma + 1));
}

bool is_device(std::string_view text) {
  return text == "auto" || text == "cpu" || text == "cuda:all" || are_gpus(text);
}

bool is_origin(std::string_view text) {
  const bool has_scheme = text.starts_with("http://") || text.starts_with("https://");
  const std::string_view host = text.substr(std::min(text.size(), text.find("://") + 3));
  return text == "*" || (has_scheme && !host.empty() && host.find('/') == std::string_view::npos);
}

bool is_something(std::string_view text) { return !text.empty(); }

bool is_anything(std::string_view /*text*/) { return true; }

constexpr std::array<std::string_view, 5> log_levels{"trace", "debug", "info", "warn", "error"};
constexpr std::array<std::string_view, 2> log_formats{"text", "json"};
constexpr std::array<std::string_view, 3> roles{"both", "gateway", "engine"};
constexpr std::array<std::string_view, 2> callback_sessions{"unread", "all"};
constexpr std::array<std::string_view, 6> cpu_levels{"auto",   "portable",    "avx2",
                                                     "avx512", "avx512_vnni", "neon"};
constexpr std::array<std::string_view, 3> decoders{"greedy", "prefix", "rescore"};
constexpr std::array<std::string_view, 3> kv_formats{"f32", "bf16", "fp8_e4m3"};
constexpr std::array<std::string_view, 5> weight_types{"fp32", "bf16", "fp16", "int8", "fp8"};
constexpr std::array<std::string_view, 2> capacity_policies{"finalize", "recycle"};
constexpr int no_limit = std::numeric_limits<int>::max();

constexpr ConfigOption table[] = {
    {"server.role",
     "What this process does: serve clients with the engines of a cluster, recognize for its gateways, or "
     "both, as a server that is alone does.",
     ChoiceField{member<&ServerConfig::role>, roles}},
    {"server.bind", "Address and port to listen on.",
     TextField{member<&ServerConfig::bind>, is_address, "HOST:PORT, such as 127.0.0.1:8080 or [::]:8080"}},
    {"server.dialect_at", "Ports that dialects have of their own, where their clients expect them.",
     ListField{member<&ServerConfig::dialect_at>, is_dialect_port, "PORT=DIALECT, such as 2700=vosk"}},
    {"server.audiosocket",
     "Where Asterisk's AudioSocket is served, to everybody: it has neither keys nor TLS. Empty is nowhere.",
     TextField{member<&ServerConfig::audiosocket>, is_address_or_empty, "HOST:PORT, such as 127.0.0.1:9092"}},
    {"server.api_keys_file", "Who is let in, as `tutti keygen` writes it; empty is everybody.",
     TextField{member<&ServerConfig::api_keys_file>, is_anything, "a file"}, Applies::at_once},
    {"server.jwt_keys_file",
     "Keys that tokens (JWT) are checked with, taken in place of API keys: a JWK set, public keys (PEM), or "
     "a "
     "secret; empty is none.",
     TextField{member<&ServerConfig::jwt_keys_file>, is_anything, "a file"}, Applies::at_once},
    {"server.jwt_audience", "What the aud of a token must have.",
     TextField{member<&ServerConfig::jwt_audience>, is_something, "text"}, Applies::at_once},
    {"server.jwt_issuer", "What the iss of a token must be; empty is anything.",
     TextField{member<&ServerConfig::jwt_issuer>, is_anything, "text"}, Applies::at_once},
    {"server.allowed_origins",
     "Whose pages may use the server from a browser beside its own; * is everybody's.",
     ListField{member<&ServerConfig::allowed_origins>, is_origin, "an origin, such as https://example.org"},
     Applies::at_once},
    {"server.trusted_proxies",
     "Proxies that may say for whom a request is, in X-Forwarded-For or a PROXY header.",
     ListField{member<&ServerConfig::trusted_proxies>, is_anything, "a range, such as 10.0.0.0/8"},
     Applies::at_once},
    {"server.proxy_protocol",
     "Connections of trusted_proxies begin with a PROXY header, version 1 or 2; those without one are "
     "closed.",
     SwitchField{member<&ServerConfig::proxy_protocol>}, Applies::at_once},
    {"server.insecure", "Let everybody in, also on an address that others can reach.",
     SwitchField{member<&ServerConfig::insecure>}},
    {"server.tls_certificate", "Certificate and its chain (PEM); with tls_key the server speaks TLS.",
     TextField{member<&ServerConfig::tls_certificate>, is_anything, "a file"}, Applies::at_once},
    {"server.tls_key", "Private key of the certificate (PEM, not encrypted).",
     TextField{member<&ServerConfig::tls_key>, is_anything, "a file"}, Applies::at_once},
    {"server.model", "Checkpoint directory; empty is the bundled model.",
     TextField{member<&ServerConfig::model>, is_anything, "a directory"}, Applies::with_model},
    {"server.max_sessions", "Open connections; one more is refused.",
     number<&ServerConfig::max_sessions>(1, 1000000), Applies::at_once},
    {"server.max_connections_per_address",
     "Connections from one address, or its streams behind a trusted proxy; one more is refused. This "
     "machine's "
     "own are not counted.",
     number<&ServerConfig::max_connections_per_address>(1, 1000000), Applies::at_once},
    {"server.handshake_timeout_s", "Time for TLS, for the header of a request, and between requests.",
     number<&ServerConfig::handshake_timeout_s>(1, 600), Applies::at_once},
    {"server.max_header_bytes", "A request with a longer header is refused.",
     number<&ServerConfig::max_header_bytes>(1024, 1 << 20), Applies::at_once},
    {"server.credit_ms", "Audio a session may have unacknowledged before its socket is not read.",
     number<&ServerConfig::credit_ms>(1000, 600000), Applies::at_once},
    {"server.max_message_bytes", "A longer WebSocket message ends its session.",
     number<&ServerConfig::max_message_bytes>(1024, 1 << 30), Applies::at_once},
    {"server.max_queued_events", "Results waiting for a slow reader; partials are superseded first.",
     number<&ServerConfig::max_queued_events>(2, 1000000), Applies::at_once},
    {"server.idle_timeout_s", "A session without audio or keep-alive for so long ends.",
     number<&ServerConfig::idle_timeout_s>(1, 86400), Applies::at_once},
    {"server.max_stream_s", "A session that is open for so long ends, with its last results; 0 is never.",
     number<&ServerConfig::max_stream_s>(0, 31536000), Applies::at_once},
    {"server.max_subscribers", "Readers of the events of streams; one more is refused.",
     number<&ServerConfig::max_subscribers>(0, 1000000)},
    {"server.max_uploads", "Files being received or transcribed at a time; one more is refused.",
     number<&ServerConfig::max_uploads>(1, 1000), Applies::at_once},
    {"server.max_upload_bytes", "A longer request body is refused.",
     number<&ServerConfig::max_upload_bytes>(1024, 1 << 30), Applies::at_once},
    {"server.max_upload_seconds", "An uploaded file with more audio is refused.",
     number<&ServerConfig::max_upload_seconds>(1, 86400), Applies::at_once},
    {"server.grace_s", "How long a stop lets running streams go on, before they get their last finals.",
     number<&ServerConfig::grace_s>(0, 3600), Applies::at_once},
    {"server.max_wait_ms", "How long a new stream waits for a place when there is none; 0 is not at all.",
     number<&ServerConfig::max_wait_ms>(0, 600000), Applies::at_once},
    {"server.max_waiting", "Streams that may wait for a place; one more is refused.",
     number<&ServerConfig::max_waiting>(1, 1000000), Applies::at_once},
    {"server.latency_target_ms",
     "A core or GPU whose chunks take longer (99th percentile) takes no new streams; 0 is never.",
     number<&ServerConfig::latency_target_ms>(0, 600000), Applies::with_model},
    {"server.owner_timeout_s",
     "A core or GPU that hangs for so long is given up; its streams move to others.",
     number<&ServerConfig::owner_timeout_s>(1, 3600), Applies::at_once},
    {"server.snapshot_ms",
     "Audio between two copies of a stream's state, from which another core or GPU can go on; 0 is none.",
     number<&ServerConfig::snapshot_ms>(0, 60000), Applies::with_model},
    {"server.log_level", "The least severe message that is logged.",
     ChoiceField{member<&ServerConfig::log_level>, log_levels}, Applies::at_once},
    {"server.log_format", "Lines for people, or objects for programs.",
     ChoiceField{member<&ServerConfig::log_format>, log_formats}},
    {"server.trace_dir",
     "An existing directory for timelines of the first 256 sessions, which Perfetto opens; empty is nowhere.",
     TextField{member<&ServerConfig::trace_dir>, is_anything, "a directory"}},

    {"admin.bind",
     "Address and port for who runs the server: /metrics, /monitor, /admin/drain and /admin/reload. Empty is "
     "with all else, without the last two.",
     TextField{member<&ServerConfig::admin_bind>, is_address_or_empty, "HOST:PORT, such as 127.0.0.1:9090"}},

    {"callback.url", "Where results are posted as they come; empty is nowhere.",
     TextField{member<&ServerConfig::callback_url>, is_anything,
               "a URL, such as https://example.org/results"}},
    {"callback.secret_file", "Holds the secret that messages are signed with.",
     TextField{member<&ServerConfig::callback_secret_file>, is_anything, "a file"}},
    {"callback.sessions", "Whose results: of sessions whose client does not read them, or of all.",
     ChoiceField{member<&ServerConfig::callback_sessions>, callback_sessions}},
    {"callback.private_networks", "Addresses that may be called although they are not public.",
     ListField{member<&ServerConfig::callback_private_networks>, is_anything, "a range, such as 10.0.0.0/8"}},
    {"callback.ca_file", "Certificates (PEM) to trust beside the system's.",
     TextField{member<&ServerConfig::callback_ca_file>, is_anything, "a file"}},
    {"callback.timeout_s", "How long one attempt may take, and the last ones when the server stops.",
     number<&ServerConfig::callback_timeout_s>(1, 600)},
    {"callback.attempts", "A message that was not taken so often is dropped.",
     number<&ServerConfig::callback_attempts>(1, 100)},
    {"callback.max_queued", "Messages that may wait; one more is dropped.",
     number<&ServerConfig::callback_max_queued>(1, 1000000)},

    {"cluster.bind",
     "Address and port where gateways find the cores and GPUs of this process; empty is nowhere.",
     TextField{member<&ServerConfig::cluster_bind>, is_address_or_empty,
               "ADDRESS:PORT of a private network, such as 10.0.0.3:7000"}},
    {"cluster.bind_any", "Let cluster.bind be an address that others than the cluster reach.",
     SwitchField{member<&ServerConfig::cluster_bind_any>}},
    {"cluster.engines", "Engines whose cores and GPUs this process uses: all that are found at these names.",
     ListField{member<&ServerConfig::cluster_engines>, is_address, "HOST:PORT, such as engines:7000"}},
    {"cluster.certificate", "Who this process is to the others of its cluster (PEM, with its chain).",
     TextField{member<&ServerConfig::cluster_certificate>, is_anything, "a file"}},
    {"cluster.key", "Private key of that certificate (PEM, not encrypted).",
     TextField{member<&ServerConfig::cluster_key>, is_anything, "a file"}},
    {"cluster.ca",
     "The cluster's own authority (PEM): whoever has a certificate of it belongs to the cluster.",
     TextField{member<&ServerConfig::cluster_ca>, is_anything, "a file"}},

    {"engine.device", "What recognises: the CPU, GPUs by their numbers, or all GPUs, else the CPU.",
     TextField{member<&EngineConfig::device>, is_device,
               "auto, cpu, cuda:all, cuda:N or several such as cuda:0,cuda:1"}},
    {"engine.owners", "CPU cores that recognise; 0 is every usable one.",
     number<&EngineConfig::owners>(0, 1024)},
    {"engine.weights",
     "How weight matrices are held. A model is rounded as it is loaded: to bf16, half the memory, or to "
     "int8, a quarter, which a CPU computes fastest; for a GPU also to fp16, or fp8 from compute capability "
     "8.9 on.",
     ChoiceField{member<&EngineConfig::weights>, weight_types}, Applies::with_model},
    {"engine.cpu_level", "Highest instruction set that CPU kernels use; auto is the highest there is.",
     ChoiceField{member<&EngineConfig::cpu_level>, cpu_levels}},
    {"engine.max_streams", "Streams that one core or GPU holds at a time.",
     number<&EngineConfig::max_streams>(1, 100000), Applies::with_model},
    {"engine.max_batch_size", "Streams that one tick advances together.",
     number<&EngineConfig::max_batch_size>(1, 1024), Applies::with_model},
    {"engine.max_tick_ms", "A CPU tick is kept shorter by advancing fewer streams.",
     number<&EngineConfig::max_tick_ms>(1, 10000), Applies::with_model},
    {"engine.chunk_size", "Encoder frames recognised at a time; more is more accurate and later.",
     number<&EngineConfig::chunk_size>(1, 1024), Applies::with_model},
    {"engine.num_left_chunks", "Chunks of history a chunk attends to; -1 is all, up to the stream's blocks.",
     number<&EngineConfig::num_left_chunks>(-1, 1024), Applies::with_model},
    {"engine.block_size_frames", "Encoder frames of a cache block; 0 is chunk_size.",
     number<&EngineConfig::block_size_frames>(0, 65536), Applies::with_model},
    {"engine.max_num_blocks",
     "Cache blocks of all streams; 0 is what they need, and with unlimited history what memory holds.",
     number<&EngineConfig::max_num_blocks>(0, no_limit), Applies::with_model},
    {"engine.max_blocks_per_seq", "Cache blocks of one stream at most.",
     number<&EngineConfig::max_blocks_per_seq>(1, 1 << 20), Applies::with_model},
    {"engine.memory_budget_mib",
     "Memory of the whole program, or beside the model on each GPU, in MiB; 0 is nine tenths of what is "
     "free.",
     number<&EngineConfig::memory_budget_mib>(0, no_limit), Applies::with_model},
    {"engine.at_capacity",
     "A stream with unlimited history that fills its blocks ends its segment, or drops its oldest block.",
     ChoiceField{member<&EngineConfig::at_capacity>, capacity_policies}, Applies::with_model},
    {"engine.max_position_frames", "Encoder frames after which positions restart; 0 is never.",
     number<&EngineConfig::max_position_frames>(0, no_limit), Applies::with_model},
    {"engine.max_segment_tokens", "A longer segment is closed with reason \"length\".",
     number<&EngineConfig::max_segment_tokens>(1, 1000000), Applies::with_model},
    {"engine.max_buffered_ms", "Audio a stream may have waiting in the engine.",
     number<&EngineConfig::max_buffered_ms>(1000, 600000), Applies::with_model},
    {"engine.decoder",
     "Search over the model's output; rescore is prefix with finals chosen by the model's attention decoder "
     "too.",
     ChoiceField{member<&EngineConfig::decoder>, decoders}, Applies::with_model},
    {"engine.beam", "Prefixes that the prefix decoder keeps.", number<&EngineConfig::beam>(1, 64),
     Applies::with_model},
    {"engine.ctc_weight", "Share of the CTC score in rescoring; -1 is what the model states.",
     weight<&EngineConfig::ctc_weight>(100), Applies::with_model},
    {"engine.reverse_weight", "Share of the right-to-left decoder in rescoring; -1 is what the model states.",
     weight<&EngineConfig::reverse_weight>(1), Applies::with_model},
    {"engine.max_rescored_frames",
     "Encoder frames of a segment kept for rescoring; a longer one is closed with reason \"length\".",
     number<&EngineConfig::max_rescored_frames>(16, 1 << 16), Applies::with_model},
    {"engine.decoder_kv",
     "How keys and values of the attention decoder are stored; the narrower, the less memory rescoring "
     "takes.",
     ChoiceField{member<&EngineConfig::decoder_kv>, kv_formats}, Applies::with_model},
    {"engine.endpoint_silence_ms", "Silence after speech that ends a segment; 0 is never.",
     number<&EngineConfig::endpoint_silence_ms>(0, 600000), Applies::at_once},
    {"engine.endpoint_long_silence_ms",
     "Silence without speech after which a segment starts anew; 0 is never.",
     number<&EngineConfig::endpoint_long_silence_ms>(0, 600000), Applies::at_once},
    {"engine.max_segment_ms", "A longer segment is closed with reason \"length\"; 0 is never.",
     number<&EngineConfig::max_segment_ms>(0, 3600000), Applies::at_once},
};

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

std::string_view leaf(std::string_view name) { return name.substr(name.rfind('.') + 1); }
std::string_view section(std::string_view name) { return name.substr(0, name.find('.')); }

/// Levenshtein distance.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

/// "a, b" is two items, "" is none.
std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const size_t begin = std::min(item.find_first_not_of(' '), item.size());
    item = item.substr(begin, item.find_last_not_of(' ') + 1 - begin);
    items.emplace_back(item);
  }
  return items;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

std::string_view when_applied(Applies applies) {
  switch (applies) {
    case Applies::at_start:
      return "A change needs a restart.";
    case Applies::at_once:
      return "Reloaded.";
    case Applies::with_model:
      return "Reloaded with the model.";
  }
  return {};
}

std::string ConfigOption::environment() const {
  std::string variable = "TUTTI_";
  for (const char c : name) {
    variable += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return variable;
}

std::string ConfigOption::flag() const {
  const bool is_plain = section(name) == "server" || section(name) == "engine";
  std::string spelled(is_plain ? leaf(name) : name);
  std::ranges::replace_if(
      spelled, [](char c) { return c == '_' || c == '.'; }, '-');
  return "--" + spelled;
}

std::string ConfigOption::accepted() const {
  return std::visit(
      Overloaded{
          [](const WholeNumberField& f) { return fmt::format("a whole number from {} to {}", f.min, f.max); },
          [](const WeightField& f) { return fmt::format("-1, or a number from 0 to {}", f.max); },
          [](const SwitchField&) { return std::string("true or false"); },
          [](const ChoiceField& f) {
            return fmt::format("{}{}", f.choices.size() > 1 ? "one of " : "", fmt::join(f.choices, ", "));
          },
          [](const TextField& f) { return std::string(f.accepted); },
          [](const ListField& f) { return fmt::format("any number of {}", f.accepted); },
      },
      value);
}

std::string ConfigOption::to_toml(const ServerConfig& config) const {
  // The accessors of the table give what can be written to.
  ServerConfig copy = config;
  return std::visit(Overloaded{
                        [&](const WholeNumberField& f) { return std::to_string(f.field(copy)); },
                        [&](const WeightField& f) { return fmt::format("{}", f.field(copy)); },
                        [&](const SwitchField& f) { return std::string(f.field(copy) ? "true" : "false"); },
                        [&](const ListField& f) {
                          std::vector<std::string> items;
                          for (const std::string& item : f.field(copy)) items.push_back(quoted(item));
                          return fmt::format("[{}]", fmt::join(items, ", "));
                        },
                        [&](const auto& f) { return quoted(f.field(copy)); },
                    },
                    value);
}

void ConfigOption::copy(const ServerConfig& from, ServerConfig& to) const {
  ServerConfig source = from;  // the accessors of the table give what can be written to
  std::visit([&](const auto& f) { f.field(to) = f.field(source); }, value);
}

bool ConfigOption::set_number(ServerConfig& config, int64_t number) const {
  const auto* f = std::get_if<WholeNumberField>(&value);
  if (f == nullptr || number < f->min || number > f->max) return false;
  f->field(config) = static_cast<int>(number);
  return true;
}

bool ConfigOption::set_weight(ServerConfig& config, double weight) const {
  const auto* f = std::get_if<WeightField>(&value);
  if (f == nullptr || !(weight == -1 || (weight >= 0 && weight <= static_cast<double>(f->max)))) return false;
  f->field(config) = static_cast<float>(weight);
  return true;
}

bool ConfigOption::set_switch(ServerConfig& config, bool on) const {
  const auto* f = std::get_if<SwitchField>(&value);
  if (f == nullptr) return false;
  f->field(config) = on;
  return true;
}

bool ConfigOption::set_text(ServerConfig& config, std::string_view text) const {
  return std::visit(Overloaded{
                        [](const WholeNumberField&) { return false; },
                        [](const WeightField&) { return false; },
                        [](const SwitchField&) { return false; },
                        [](const ListField&) { return false; },
                        [&](const ChoiceField& f) {
                          if (std::ranges::find(f.choices, text) == f.choices.end()) return false;
                          f.field(config) = text;
                          return true;
                        },
                        [&](const TextField& f) {
                          if (!f.accepts(text)) return false;
                          f.field(config) = text;
                          return true;
                        },
                    },
                    value);
}

bool ConfigOption::set_list(ServerConfig& config, const std::vector<std::string>& items) const {
  const auto* f = std::get_if<ListField>(&value);
  if (f == nullptr || !std::ranges::all_of(items, f->accepts)) return false;
  f->field(config) = items;
  return true;
}

bool ConfigOption::parse(ServerConfig& config, std::string_view spelled) const {
  if (std::holds_alternative<SwitchField>(value)) {
    return (spelled == "true" || spelled == "false") && set_switch(config, spelled == "true");
  }
  if (std::holds_alternative<WeightField>(value)) {
    const auto weight = parse_number<double>(spelled);
    return weight && set_weight(config, *weight);
  }
  if (std::holds_alternative<ListField>(value)) return set_list(config, split_list(spelled));
  if (!std::holds_alternative<WholeNumberField>(value)) return set_text(config, spelled);
  const auto number = parse_number<int64_t>(spelled);
  return number && set_number(config, *number);
}

std::span<const ConfigOption> config_options() { return table; }

const ConfigOption* find_option(std::string_view name) {
  const auto* found = std::ranges::find(table, name, &ConfigOption::name);
  return found == std::end(table) ? nullptr : found;
}

const ConfigOption& nearest_option(std::string_view name) {
  // A right key in the wrong section is nearer than a wrong key in the right one.
  return *std::ranges::min_element(table, {}, [&](const ConfigOption& option) {
    // Without a section the first that has it is meant.
    const size_t whole = name.find('.') == std::string_view::npos ? 0 : edit_distance(name, option.name);
    return std::pair(edit_distance(leaf(name), leaf(option.name)), whole);
  });
}

std::string render_toml(const ServerConfig& config) {
  std::string text;
  std::string_view open_section;
  for (const ConfigOption& option : table) {
    if (section(option.name) != open_section) {
      open_section = section(option.name);
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", open_section);
    }
    text += fmt::format("# {} {}; {}: {}. {}\n{} = {}\n", option.help, option.flag(), option.environment(),
                        option.accepted(), when_applied(option.applies), leaf(option.name),
                        option.to_toml(config));
  }
  return text;
}

}  // namespace tutti
