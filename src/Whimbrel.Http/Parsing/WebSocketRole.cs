namespace Whimbrel.Http.Parsing;

/// <summary>Which end of a WebSocket this is. The masks follow from it: no caller says whether a frame has one.</summary>
internal enum WebSocketRole : byte
{
    /// <summary>Reads masked frames and writes plain ones.</summary>
    Server,

    /// <summary>Reads plain frames and writes masked ones.</summary>
    Client,
}
