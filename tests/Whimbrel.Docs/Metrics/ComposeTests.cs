using System.Text.RegularExpressions;
using YamlDotNet.Serialization;

namespace Whimbrel.Docs.Metrics;

// The compose file with its configurations. It cannot be run here, so what the files say of one another is checked.
public sealed partial class ComposeTests
{
    private const string Folder = "deploy/grafana";

    private static readonly Yaml _compose = Yaml.Of("compose.yaml");
    private static readonly Yaml _collector = Yaml.Of("collector.yaml");

    public static TheoryData<string> Services => [.. _compose["services"].Keys];

    [Theory, MemberData(nameof(Services))]
    public void A_service_has_a_pinned_image_files_that_exist_and_ports_of_this_machine_only(string name)
    {
        var service = _compose["services"][name];
        Assert.Matches(@"^[\w./-]+:v?\d+\.\d+\.\d+$", service["image"].Text);
        foreach (var volume in service["volumes"].Texts)
        {
            var parts = volume.Split(':');
            if (!parts[0].StartsWith("./", StringComparison.Ordinal))
                Assert.Contains(parts[0], _compose["volumes"].Keys);
            else Assert.True(Path.Exists(PathOf(parts[0])), $"{name}: {parts[0]} does not exist");
        }

        Assert.All(service["ports"].Texts, static port => Assert.Matches(@"^127\.0\.0\.1:(\d+):\1$", port));
        if (service.Keys.Contains("depends_on"))
            Assert.All(service["depends_on"].Texts, static other => Assert.Contains(other, _compose["services"].Keys));
    }

    [Fact]
    public void Options_name_files_that_are_mounted()
    {
        foreach (var name in (string[])["collector", "prometheus"])
        {
            var service = _compose["services"][name];
            var config = Assert.Single(service["command"].Texts.Select(static c => Config().Match(c)),
                static m => m.Success).Groups[1].Value;
            Assert.Single(service["volumes"].Texts, v => v.Split(':')[1] == config);
        }
    }

    [Fact]
    public void The_collector_listens_where_programs_send_and_sends_where_Prometheus_listens()
    {
        var protocols = _collector["receivers"]["otlp"]["protocols"];
        Assert.Equal(PortsOf("collector"),
            protocols.Keys.Select(p => int.Parse(protocols[p]["endpoint"].Text.Split(':')[1],
                System.Globalization.CultureInfo.InvariantCulture)).Order());
        var target = new Uri(_collector["exporters"]["otlphttp"]["endpoint"].Text);
        Assert.Equal("/api/v1/otlp", target.AbsolutePath);
        Assert.Contains("--web.enable-otlp-receiver", _compose["services"][target.Host]["command"].Texts);
        Assert.Contains(target.Port, PortsOf(target.Host));
    }

    [Fact]
    public void Each_pipeline_of_the_collector_names_what_the_file_defines()
    {
        var pipelines = _collector["service"]["pipelines"];
        Assert.Equal(["metrics", "traces", "logs"], pipelines.Keys);
        foreach (var pipeline in pipelines.Keys)
        {
            foreach (var part in pipelines[pipeline].Keys)
                Assert.All(pipelines[pipeline][part].Texts, name => Assert.Contains(name, _collector[part].Keys));
        }
    }

    [Fact]
    public void Grafana_finds_Prometheus_and_the_dashboard()
    {
        var source = Assert.Single(Yaml.Of("provisioning/datasources/prometheus.yaml")["datasources"].Items);
        Assert.Equal("prometheus", source["type"].Text); // as the dashboard's variable wants it
        Assert.Equal("true", source["isDefault"].Text);
        var url = new Uri(source["url"].Text);
        Assert.Contains(url.Port, PortsOf(url.Host));

        var service = _compose["services"]["grafana"];
        var provider = Assert.Single(Yaml.Of("provisioning/dashboards/whimbrel.yaml")["providers"].Items);
        var folder = provider["options"]["path"].Text;
        var home = service["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"].Text;
        Assert.Equal(folder, Path.GetDirectoryName(home));
        Assert.Single(service["volumes"].Texts, v => v == $"./whimbrel.json:{home}:ro");
        Assert.Single(service["volumes"].Texts, static v => v == "./provisioning:/etc/grafana/provisioning:ro");
    }

    [Fact]
    public void Prometheus_spells_names_as_the_dashboard_does()
    {
        Assert.Equal("UnderscoreEscapingWithSuffixes", Yaml.Of("prometheus.yaml")["otlp"]["translation_strategy"].Text);
        var page = File.ReadAllText(Repository.PathOf("docs/guide/metrics.md"));
        Assert.Contains($"docker compose -f {Folder}/compose.yaml up", page, StringComparison.Ordinal);
        Assert.All(PortsOf("grafana"), port => Assert.Contains($"http://localhost:{port}", page,
            StringComparison.Ordinal));
    }

    private static string PathOf(string name) => Path.Combine(Repository.PathOf(Folder), name);

    private static IEnumerable<int> PortsOf(string service) => _compose["services"][service]["ports"].Texts
        .Select(static p => int.Parse(p.Split(':')[^1], System.Globalization.CultureInfo.InvariantCulture)).Order();

    [GeneratedRegex(@"^--config(?:\.file)?=(\S+)$")]
    private static partial Regex Config();

    // A node of a document. A key that is missing fails the test with its name.
    private sealed class Yaml(object? node, string place)
    {
        public static Yaml Of(string name) => new(
            new DeserializerBuilder().Build().Deserialize<object>(File.ReadAllText(PathOf(name))), name);

        public string Text => Assert.IsType<string>(node);

        public IReadOnlyList<string> Keys =>
            [.. Assert.IsType<Dictionary<object, object>>(node).Keys.Cast<string>()];

        public IReadOnlyList<Yaml> Items => [.. Assert.IsType<List<object>>(node).Select(i => new Yaml(i, place))];

        public IReadOnlyList<string> Texts => [.. Items.Select(static i => i.Text)];

        public Yaml this[string key] =>
            node is Dictionary<object, object> map && map.TryGetValue(key, out var value)
                ? new Yaml(value, $"{place}: {key}")
                : throw new Xunit.Sdk.XunitException($"{place} has no {key}");
    }
}
