// Types of the part of capstone-wasm that fastprobe uses: the package ships its own where TypeScript does not look for them.

declare module 'capstone-wasm' {
  /** Instantiates the module once per process; emscripten fills `module` with its heap and the C functions. */
  export function loadCapstone(module: object): Promise<void>;
  export const Const: {
    readonly CS_ARCH_X86: number;
    readonly CS_MODE_64: number;
    readonly CS_OPT_DETAIL: number;
    readonly CS_OPT_ON: number;
  };
}
