namespace Whimbrel.Http.Parsing;

/// <summary>End of a WebSocket. It determines whether frames are masked, so no caller chooses.</summary>
internal enum WebSocketRole : byte
{
    /// <summary>Reads masked frames and writes plain ones.</summary>
    Server,

    /// <summary>Reads plain frames and writes masked ones.</summary>
    Client,
}
