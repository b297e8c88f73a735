using System.Globalization;

namespace Whimbrel.Compat;

/// <summary>The value of Host: the address that a client was given, and its port unless that is the usual one.</summary>
internal static class HostText
{
    internal static string Of(string address, int port, int usual)
    {
        string host = address.Contains(':', StringComparison.Ordinal) ? $"[{address}]" : address;
        return port == usual ? host : string.Create(CultureInfo.InvariantCulture, $"{host}:{port}");
    }
}
