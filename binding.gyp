# Builds the addon where no prebuilt one fits, and the prebuilt packages themselves. Same sources as native/CMakeLists.txt.
{
  "targets": [
    {
      "target_name": "fastprobe",
      "sources": ["<!@(node -p \"const { addon, runtime } = require('./native/sources.json'); [...addon, ...runtime].map((file) => 'native/' + file).join(' ')\")"],
      "include_dirs": ["<!(node -p \"require('node-addon-api').include_dir\")"],
      "defines": ["NAPI_VERSION=8", "NODE_ADDON_API_CPP_EXCEPTIONS", "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS"],
      "cflags": ["-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-fno-strict-aliasing"],
      # The only C files are the runtime's.
      "cflags_c": ["<!@(node -p \"require('./native/sources.json').runtimeFlags.join(' ')\")"],
      "cflags_cc": ["-std=gnu++20", "-fexceptions"],
      "cflags_cc!": ["-fno-exceptions", "-std=gnu++17"],
      "ldflags": ["-static-libstdc++", "-static-libgcc"],
    }
  ]
}
