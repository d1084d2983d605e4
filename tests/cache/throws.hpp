#pragma once

#include <gmock/gmock.h>

#include <string>

namespace tutti {

/// Expects `action` to throw exactly an `Exception` whose message contains every one of `parts`.
template <class Exception, class Action, class... Parts>
void expect_throws(Action&& action, const Parts&... parts) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::exception& e) {
    EXPECT_EQ(typeid(e), typeid(Exception)) << e.what();
    EXPECT_THAT(std::string(e.what()), testing::AllOf(testing::HasSubstr(parts)...));
  }
}

}  // namespace tutti
