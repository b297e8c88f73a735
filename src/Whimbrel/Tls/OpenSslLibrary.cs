using System.Runtime.InteropServices;
using Whimbrel.Linux;

namespace Whimbrel.Tls;

/// <summary>
/// Finds OpenSSL 3, once in a process, and provides the reason if it cannot be used. The framework's own cryptography
/// opens libssl.so.3 by the same name, so both share one copy. If the framework is configured for another version, this
/// layer is not used.
/// </summary>
internal static class OpenSslLibrary
{
    // If libssl registers its clean-up with atexit, it frees its tables while threads of loops still use them: 6 of 15
    // processes that ended under load crashed. NO_ATEXIT, LOAD_SSL_STRINGS, LOAD_CRYPTO_STRINGS. Only the first call in
    // a process has an effect; if the framework called first, it has passed the same options.
    private const ulong InitOptions = 0x80000 | 0x200000 | 2;

    private const string OverrideVariable = "DOTNET_OPENSSL_VERSION_OVERRIDE";
    private const string OldOverrideVariable = "CLR_OPENSSL_VERSION_OVERRIDE";

    private static readonly Lazy<(string? Version, string? Refusal)> s_state =
        new(() => Load(Environment.GetEnvironmentVariable));

    /// <summary>Version such as "3.0.19", or null if it cannot be used.</summary>
    internal static string? Version => s_state.Value.Version;

    /// <summary>Reason why it cannot be used, as a text after a colon, or null. Any thread.</summary>
    internal static string? Refusal => s_state.Value.Refusal;

    internal static bool IsUsable => Refusal is null;

    /// <summary>Loads and initializes both libraries. The environment is a parameter for tests.</summary>
    internal static (string? Version, string? Refusal) Load(Func<string, string?> environment)
    {
        // The same systems as for the system calls, where the layouts of C's long and of pointers are known.
        if (!KernelProbe.HasEpoll) return (null, "the direct OpenSSL layer needs Linux on x64 or arm64");
        foreach (string variable in (ReadOnlySpan<string>)[OverrideVariable, OldOverrideVariable])
        {
            if (!string.IsNullOrEmpty(environment(variable)))
                return (null, $"{variable} is set, so that the framework may use another OpenSSL");
        }

        if (!NativeLibrary.TryLoad(OpenSslApi.Crypto, out nint crypto))
            return (null, $"{OpenSslApi.Crypto} was not found");
        if (!NativeLibrary.TryLoad(OpenSslApi.Ssl, out nint ssl)) return (null, $"{OpenSslApi.Ssl} was not found");
        // Names of 3.0 that a build without a feature, or another library with this name, may lack.
        foreach (string name in (ReadOnlySpan<string>)["SSL_get1_peer_certificate", "SSL_CTX_set0_tmp_dh_pkey",
            "SSL_CTX_set_ciphersuites"])
        {
            if (!NativeLibrary.TryGetExport(ssl, name, out _)) return (null, $"{OpenSslApi.Ssl} has no {name}");
        }

        if (!NativeLibrary.TryGetExport(crypto, "d2i_KeyParams", out _))
            return (null, $"{OpenSslApi.Crypto} has no d2i_KeyParams");

        nuint number = OpenSslApi.VersionNumber();
        string version = $"{number >> 28}.{(number >> 20) & 0xff}.{(number >> 4) & 0xff}";
        if (number >> 28 != 3) return (null, $"{OpenSslApi.Crypto} is version {version}, not 3");
        if (OpenSslApi.Init(InitOptions, 0) != 1)
            return (null, $"OpenSSL {version} could not be set up: {OpenSslErrors.Take()}");
        return (version, null);
    }
}
