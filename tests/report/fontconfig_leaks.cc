// SPDX-License-Identifier: Apache-2.0

// LeakSanitizer asks for this by name. Fontconfig, which cairo asks for a font, keeps patterns for
// the life of the process where no pointer reaches them (651 bytes, however many pictures).
extern "C" const char* __lsan_default_suppressions() { return "leak:libfontconfig.so\n"; }
