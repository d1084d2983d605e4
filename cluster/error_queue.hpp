#pragma once

namespace tutti {

/// OpenSSL tells what became of a call by the thread's queue of errors, which has to be empty before the
/// call; CAF 0.17 does not see to that. What went wrong on one connection would be taken for a failure of the
/// next that has merely nothing to read: with an engine that is killed, or a peer without a certificate, all
/// others of the process would be lost. So this program has functions of its own in the place of those that
/// CAF calls, which empty the queue first.
///
/// Throws SetupError where CAF would not find them.
void require_clean_error_queue();

}  // namespace tutti
