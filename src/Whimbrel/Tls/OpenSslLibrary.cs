using System.Runtime.InteropServices;
using Whimbrel.Linux;

namespace Whimbrel.Tls;

/// <summary>
/// Finds OpenSSL 3, once in a process, and says why not where it cannot be used. The framework's own cryptography opens
/// libssl.so.3 by the same name, so that both share one copy; where it was told to take another version, we stay away.
/// </summary>
internal static class OpenSslLibrary
{
    // libssl that registers its clean-up with atexit takes its tables away while threads of loops are still inside: 6 of 15
    // processes that ended under load crashed. NO_ATEXIT, LOAD_SSL_STRINGS, LOAD_CRYPTO_STRINGS. It counts on the first call
    // in a process only; where the framework's came first, it has said the same.
    private const ulong InitOptions = 0x80000 | 0x200000 | 2;

    private const string OverrideVariable = "DOTNET_OPENSSL_VERSION_OVERRIDE";
    private const string OldOverrideVariable = "CLR_OPENSSL_VERSION_OVERRIDE";

    private static readonly Lazy<(string? Version, string? Refusal)> s_state = new(() => Load(Environment.GetEnvironmentVariable));

    /// <summary>"3.0.19", or null where it cannot be used.</summary>
    internal static string? Version => s_state.Value.Version;

    /// <summary>Why it cannot be used, in words that follow a colon, or null. Any thread.</summary>
    internal static string? Refusal => s_state.Value.Refusal;

    internal static bool IsUsable => Refusal is null;

    /// <summary>Opens both libraries and sets them up. The environment is an argument for the tests.</summary>
    internal static (string? Version, string? Refusal) Load(Func<string, string?> environment)
    {
        // The same systems for which the system calls are declared: the layouts of C's long and of the pointers are known there.
        if (!KernelProbe.HasEpoll) return (null, "the direct OpenSSL layer needs Linux on x64 or arm64");
        foreach (string variable in (ReadOnlySpan<string>)[OverrideVariable, OldOverrideVariable])
        {
            if (!string.IsNullOrEmpty(environment(variable))) return (null, $"{variable} is set, so that the framework may use another OpenSSL");
        }

        if (!NativeLibrary.TryLoad(OpenSslApi.Crypto, out nint crypto)) return (null, $"{OpenSslApi.Crypto} was not found");
        if (!NativeLibrary.TryLoad(OpenSslApi.Ssl, out nint ssl)) return (null, $"{OpenSslApi.Ssl} was not found");
        // Names of 3.0 that a build without a feature, or another library under this name, would lack.
        foreach (string name in (ReadOnlySpan<string>)["SSL_get1_peer_certificate", "SSL_CTX_set0_tmp_dh_pkey", "SSL_CTX_set_ciphersuites"])
        {
            if (!NativeLibrary.TryGetExport(ssl, name, out _)) return (null, $"{OpenSslApi.Ssl} has no {name}");
        }

        if (!NativeLibrary.TryGetExport(crypto, "d2i_KeyParams", out _)) return (null, $"{OpenSslApi.Crypto} has no d2i_KeyParams");

        nuint number = OpenSslApi.VersionNumber();
        string version = $"{number >> 28}.{(number >> 20) & 0xff}.{(number >> 4) & 0xff}";
        if (number >> 28 != 3) return (null, $"{OpenSslApi.Crypto} is version {version}, not 3");
        if (OpenSslApi.Init(InitOptions, 0) != 1) return (null, $"OpenSSL {version} could not be set up: {OpenSslErrors.Take()}");
        return (version, null);
    }
}
