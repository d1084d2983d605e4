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
class GatewayBridge;
class Metrics;
class RecognitionService;
class RecognitionStream;
class StreamContext;
class UploadBridge;
class UploadJob;
class UploadSlot;

}  // namespace tutti
