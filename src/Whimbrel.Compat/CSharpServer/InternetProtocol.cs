namespace CSharpServer;

/// <summary>Version of the Internet protocol.</summary>
public enum InternetProtocol : sbyte
{
    /// <summary>Version 4.</summary>
    IPv4 = 0,

    /// <summary>Version 6.</summary>
    IPv6 = 1,
}
