#include "app/net_metrics.hpp"

#include <array>
#include <atomic>
#include <string>

namespace tutti {
namespace {

template <class Stats>
struct StatMetric {
  const char* name;
  const char* help;
  std::atomic<int64_t> Stats::*value;
};
using NetMetric = StatMetric<NetStats>;
using CallbackMetric = StatMetric<CallbackStats>;

constexpr std::array gauges = {
    NetMetric{"open_connections", "Open connections", &NetStats::open_connections},
    NetMetric{"open_sessions", "Open WebSocket and AudioSocket sessions", &NetStats::open_sessions},
};

constexpr std::array counters = {
    NetMetric{"accepted_connections_total", "Connections accepted", &NetStats::accepted_connections},
    NetMetric{"failed_accepts_total", "Connections the system could not accept", &NetStats::failed_accepts},
    NetMetric{"http_requests_total", "HTTP requests, upgrades included", &NetStats::http_requests},
    NetMetric{"bad_http_requests_total", "Requests that were not HTTP, too long or too slow",
              &NetStats::bad_http_requests},
    NetMetric{"unauthorized_requests_total", "Requests without an API key of this server's",
              &NetStats::unauthorized_requests},
    NetMetric{"forbidden_requests_total", "Requests that the client's key does not allow",
              &NetStats::forbidden_requests},
    NetMetric{"limited_requests_total", "Requests beyond what a client or an address may have",
              &NetStats::limited_requests},
    NetMetric{"refused_addresses_total", "Connections beyond max_connections_per_address",
              &NetStats::refused_addresses},
    NetMetric{"refused_origins_total", "Requests of pages that may not use the server",
              &NetStats::refused_origins},
    NetMetric{"bad_proxy_headers_total", "Connections of trusted proxies without a PROXY header",
              &NetStats::bad_proxy_headers},
    NetMetric{"failed_handshakes_total", "TLS handshakes that failed, plain HTTP on a TLS port among them",
              &NetStats::failed_handshakes},
    NetMetric{"tls_on_plain_port_total", "Connections that spoke TLS where it is not spoken",
              &NetStats::tls_on_plain_port},
    NetMetric{"sessions_total", "WebSocket and AudioSocket sessions", &NetStats::sessions},
    NetMetric{"refused_sessions_total", "Sessions beyond max_sessions, or without a place for a stream",
              &NetStats::refused_sessions},
    NetMetric{"audio_bytes_total", "Audio received", &NetStats::audio_bytes},
    NetMetric{"text_messages_total", "Text messages received", &NetStats::text_messages},
    NetMetric{"events_sent_total", "Messages sent", &NetStats::events_sent},
    NetMetric{"superseded_partials_total", "Partials that gave way to something newer",
              &NetStats::superseded_partials},
    NetMetric{"read_stalls_total", "Times a session was not read for want of credit", &NetStats::read_stalls},
    NetMetric{"slow_readers_total", "Sessions closed because they did not read their results",
              &NetStats::slow_readers},
    NetMetric{"idle_sessions_total", "Sessions closed by the idle time-out", &NetStats::idle_sessions},
    NetMetric{"ended_sessions_total", "Sessions closed by max_stream_s or by their client's audio limit",
              &NetStats::ended_sessions},
    NetMetric{"oversized_messages_total", "Sessions closed by max_message_bytes",
              &NetStats::oversized_messages},
    NetMetric{"upload_bytes_total", "Received of files to transcribe", &NetStats::upload_bytes},
    NetMetric{"refused_uploads_total", "Uploads over max_upload_bytes or beyond max_uploads",
              &NetStats::refused_uploads},
    NetMetric{"subscriptions_total", "Subscriptions to the events of a stream", &NetStats::subscriptions},
    NetMetric{"slow_subscribers_total", "Subscribers dropped because they did not read",
              &NetStats::slow_subscribers},
    NetMetric{"vanished_peers_total", "Sessions whose peer went without a close frame",
              &NetStats::vanished_peers},
};

constexpr std::array callback_gauges = {
    CallbackMetric{"waiting", "Messages that wait to be posted", &CallbackStats::waiting},
};

constexpr std::array callback_counters = {
    CallbackMetric{"delivered_total", "Messages that were taken", &CallbackStats::delivered},
    CallbackMetric{"retries_total", "Attempts that failed and were not the last", &CallbackStats::retries},
    CallbackMetric{"failed_total", "Messages given up: refused, or no attempt left", &CallbackStats::failed},
    CallbackMetric{"dropped_total", "Messages beyond max_queued, or left at the end",
                   &CallbackStats::dropped},
    CallbackMetric{"connections_total", "Connections made", &CallbackStats::connections},
};

prometheus::MetricFamily family(const std::string& name, const char* help, prometheus::MetricType type,
                                double value) {
  prometheus::ClientMetric sample;
  (type == prometheus::MetricType::Gauge ? sample.gauge.value : sample.counter.value) = value;
  return {name, help, type, {sample}};
}

template <class Stats, size_t Gauges, size_t Counters>
std::vector<prometheus::MetricFamily> families_of(
    const std::string& prefix, const Stats& stats, const std::array<StatMetric<Stats>, Gauges>& with_gauges,
    const std::array<StatMetric<Stats>, Counters>& with_counters) {
  std::vector<prometheus::MetricFamily> families;
  families.reserve(Gauges + Counters);
  const auto add = [&](const StatMetric<Stats>& metric, prometheus::MetricType type) {
    families.push_back(
        family(prefix + metric.name, metric.help, type, static_cast<double>(stats.*metric.value)));
  };
  for (const auto& metric : with_gauges) add(metric, prometheus::MetricType::Gauge);
  for (const auto& metric : with_counters) add(metric, prometheus::MetricType::Counter);
  return families;
}

}  // namespace

std::vector<prometheus::MetricFamily> NetMetrics::Collect() const {
  return families_of("tutti_net_", stats_, gauges, counters);
}

std::vector<prometheus::MetricFamily> CallbackMetrics::Collect() const {
  return families_of("tutti_callback_", stats_, callback_gauges, callback_counters);
}

}  // namespace tutti
