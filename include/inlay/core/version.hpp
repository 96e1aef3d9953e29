// This version of Inlay. CHANGELOG.md says what a program may rely on between versions.
#pragma once

#define INLAY_VERSION_MAJOR 0
#define INLAY_VERSION_MINOR 9
#define INLAY_VERSION_PATCH 0
#define INLAY_VERSION "0.9.0"
