namespace CSharpServer;

/// <summary>Versions of TLS.</summary>
public enum SslMethod : sbyte
{
    /// <summary>SSL 2: rejected.</summary>
    SSLV2 = 0,

    /// <summary>SSL 2 for a client: rejected.</summary>
    SSLV2_Client = 1,

    /// <summary>SSL 2 for a server: rejected.</summary>
    SSLV2_Server = 2,

    /// <summary>SSL 3: rejected.</summary>
    SSLV3 = 3,

    /// <summary>SSL 3 for a client: rejected.</summary>
    SSLV3_Client = 4,

    /// <summary>SSL 3 for a server: rejected.</summary>
    SSLV3_Server = 5,

    /// <summary>TLS 1.0: rejected.</summary>
    TLSV1 = 6,

    /// <summary>TLS 1.0 for a client: rejected.</summary>
    TLSV1_Client = 7,

    /// <summary>TLS 1.0 for a server: rejected.</summary>
    TLSV1_Server = 8,

    /// <summary>TLS 1.2 and 1.3.</summary>
    SSLV23 = 9,

    /// <summary>TLS 1.2 and 1.3 for a client.</summary>
    SSLV23_Client = 10,

    /// <summary>TLS 1.2 and 1.3 for a server.</summary>
    SSLV23_Server = 11,

    /// <summary>TLS 1.1: rejected.</summary>
    TLSV11 = 12,

    /// <summary>TLS 1.1 for a client: rejected.</summary>
    TLSV11_Client = 13,

    /// <summary>TLS 1.1 for a server: rejected.</summary>
    TLSV11_Server = 14,

    /// <summary>TLS 1.2.</summary>
    TLSV12 = 15,

    /// <summary>TLS 1.2 for a client.</summary>
    TLSV12_client = 16,

    /// <summary>TLS 1.2 for a server.</summary>
    TLSV12_server = 17,

    /// <summary>TLS 1.2 and 1.3.</summary>
    TLS = 18,

    /// <summary>TLS 1.2 and 1.3 for a client.</summary>
    TLS_Client = 19,

    /// <summary>TLS 1.2 and 1.3 for a server.</summary>
    TLS_Server = 20,
}
