#pragma once

namespace tutti {

struct AudioBytes;
struct AudioSamples;
struct Inbox;
struct RecognizerInfo;
struct SegmentCommand;
struct StreamUpdates;
struct TextMessage;

class AudioIntake;
class Conversation;
class Credit;
class EventHub;
class EventHubBridge;
class GatewayBridge;
class LatencyGuard;
class Metrics;
class MovableStream;
class RecognitionService;
class RecognitionStream;
class ServerStatus;
class SessionFeed;
class SessionTrace;
class StreamContext;
class TraceWriter;
class UploadBridge;
class UploadJob;
class UploadSlot;

}  // namespace tutti
