namespace CSharpServer;

/// <summary>Which family of addresses.</summary>
public enum InternetProtocol : sbyte
{
    /// <summary>Version 4.</summary>
    IPv4 = 0,

    /// <summary>Version 6.</summary>
    IPv6 = 1,
}
