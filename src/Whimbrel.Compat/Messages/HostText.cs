using System.Globalization;

namespace Whimbrel.Compat;

/// <summary>Value of Host: the address that the client was given, and its port unless it is the default one.</summary>
internal static class HostText
{
    internal static string Of(string address, int port, int usual)
    {
        string host = address.Contains(':', StringComparison.Ordinal) ? $"[{address}]" : address;
        return port == usual ? host : string.Create(CultureInfo.InvariantCulture, $"{host}:{port}");
    }
}
