namespace Whimbrel.Compat.Templates;

/// <summary>Http*Server</summary>
internal static class HttpServerText
{
    internal static string Text(Variant v) => $$"""
        using System.Net;
        using Whimbrel.Compat;

        namespace NetCoreServer;

        /// <summary>
        /// HTTP/1.1 server{{v.Over}}: override <see cref="CreateSession"/>. Static content is sent automatically.
        /// </summary>
        public class Http{{v.S}}Server : {{v.Transport}}Server
        {
        {{Members.Constructors(v, $"Http{v.S}Server")}}
            /// <summary>Complete responses by path, which answer GET requests automatically.</summary>
            public FileCache Cache { get; } = new();

            /// <summary>Limits for requests of new sessions.</summary>
            internal Whimbrel.Http.HttpOptions Limits { get; set; } = HttpLimits.OfServers;

            /// <summary>Answers GET requests with the files of a folder, and watches it.</summary>
            /// <param name="path">Path of the folder.</param>
            /// <param name="prefix">Prefix of the URLs, before the path of each file.</param>
            /// <param name="filter">Pattern of file names, with <c>*</c> and <c>?</c>. The default matches all.</param>
            /// <param name="timeout">Value of Cache-Control, and time after which a file is read again. Default one
            /// hour.</param>
            public void AddStaticContent(string path, string prefix = "/", string filter = "*.*", TimeSpan? timeout = null) => StaticContent.Add(Cache, path, prefix, filter, timeout);

            /// <summary>Removes the files of a folder.</summary>
            /// <param name="path">Path, as passed to <see cref="AddStaticContent"/>.</param>
            public void RemoveStaticContent(string path) => Cache.RemovePath(path);

            /// <summary>Removes all static content.</summary>
            public void ClearStaticContent() => Cache.Clear();

            /// <summary>Creates the session for a connection.</summary>
            protected override {{v.Transport}}Session CreateSession() => new Http{{v.S}}Session(this);

            /// <inheritdoc/>
            protected override void Dispose(bool disposingManagedResources)
            {
                base.Dispose(disposingManagedResources);
                if (disposingManagedResources) Cache.Dispose();
            }
        }

        """;
}
